/** One job, live: how the model gets faster, task by task, and what to do with it. */
import { Button, Card, Group, Progress, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";

import type { Job, Task } from "../api/client";
import { api, data } from "../api/client";
import type { Link as Connection } from "../api/live";
import { isOver, useJobEvents } from "../api/live";
import { useJob, useProgress, useTasks } from "../api/queries";
import { useTab } from "../tab";
import { digits, duration, measured, milliseconds } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { Notice } from "../parts/notice";
import { Failure, Loaded } from "../parts/states";
import { Delete, Labels, Rename, Resume } from "../parts/job-dialogs";
import { besidePeer, gainOf, nameOf, shareDone, untunedOf, waitsAs } from "../parts/job-names";
import { Budget } from "./job-budget";
import type { Chosen } from "./job-charts";
import { Curves, WholeModel } from "./job-charts";
import { Facts, Starting } from "./job-facts";
import { Graph } from "./job-graph";
import { History } from "./job-history";
import { Layers } from "./job-layers";
import { Next } from "./job-next";
import { Operators } from "./job-operators";

export default function JobPage({ id }: { id: number }) {
  const job = useJob(id);
  const tasks = useTasks(id);
  // Asked for together with the others, not when its chart is there to be drawn.
  useProgress(id);
  const link = useJobEvents(job.data);
  const [task, choose] = useState<number | null>(null);
  const chosen: Chosen = useMemo(() => ({ task, choose }), [task]);
  useTab(job.data);
  return (
    <Loaded query={job}>
      {(found) => (
        <Stack gap="md">
          <Header job={found} link={link} />
          <Facts job={found} />
          <Starting job={found} tasks={tasks.data?.items} />
          {found.trials > 0 && <Figures job={found} />}
          <Errors job={found} tasks={tasks.data?.items ?? []} />
          <Loaded query={tasks}>
            {({ items }) => (
              <>
                <Next job={found} tasks={items} />
                <SimpleGrid cols={{ base: 1, lg: 2 }}>
                  <WholeModel job={found} tasks={items} chosen={chosen} />
                  <Curves job={found} tasks={items} chosen={chosen} />
                </SimpleGrid>
                <Budget job={found} tasks={items} />
                <Graph job={found} tasks={items} chosen={chosen} />
                <Layers job={found} tasks={items} chosen={chosen} />
                <Operators job={found} />
                <History job={found} />
              </>
            )}
          </Loaded>
        </Stack>
      )}
    </Loaded>
  );
}

function Header({ job, link }: { job: Job; link: Connection }) {
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [asked, ask] = useState<"rename" | "delete" | "resume" | null>(null);
  const spent = shareDone(job) >= 1;
  const act = useMutation({
    mutationFn: (what: "cancel" | "resume") =>
      data(
        what === "cancel"
          ? api.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: job.id } } })
          : api.POST("/api/v1/jobs/{job_id}/resume", { params: { path: { job_id: job.id } } }),
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: ["job", job.id] }),
  });
  return (
    <>
      <Group justify="space-between">
        <Group gap="xs">
          <Title order={2} size="h3">
            Job {nameOf(job)}
          </Title>
          <StateBadge state={job.state} />
          <ClockMark clock={job.clock} />
          <Labels job={job} />
          {link === "lost" && !isOver(job) && (
            <Text c="var(--warning)" size="sm" role="status">
              connection lost, trying again
            </Text>
          )}
        </Group>
        <Group gap="xs">
          {isOver(job) ? (
            <Button
              variant={spent ? "default" : "filled"}
              onClick={() => (spent ? ask("resume") : act.mutate("resume"))}
              loading={act.isPending}
            >
              {spent ? "Resume…" : "Resume"}
            </Button>
          ) : (
            <Button color="red" variant="light" onClick={() => act.mutate("cancel")} loading={act.isPending}>
              Cancel
            </Button>
          )}
          <Button component={Link} variant="default" href={`/compare?jobs=${job.id}`}>
            Compare
          </Button>
          <Button component="a" variant="default" href={`/api/v1/jobs/${job.id}/log?select=best`} download>
            ⤓ Best configs
          </Button>
          <Button component="a" variant="default" href={`/api/v1/jobs/${job.id}/log?select=all`} download>
            ⤓ Whole log
          </Button>
          <Button variant="default" onClick={() => ask("rename")}>
            Rename…
          </Button>
          {isOver(job) && (
            <Button variant="light" color="red" onClick={() => ask("delete")}>
              Delete…
            </Button>
          )}
        </Group>
      </Group>
      {asked === "rename" && <Rename job={job} onClose={() => ask(null)} />}
      {asked === "resume" && <Resume job={job} onClose={() => ask(null)} />}
      {asked === "delete" && <Delete jobs={[job.id]} onClose={() => ask(null)} onDone={() => go("/jobs")} />}
      <Progress value={shareDone(job) * 100} aria-label="Share of the budget that is used" />
      {act.error && <Failure error={act.error} />}
      {job.message && (
        <Notice
          kind={job.state === "failed" ? "error" : job.state === "done" ? "info" : "warning"}
          title={job.state}
        >
          {job.message}
        </Notice>
      )}
      {job.waiting && (
        <Notice kind="warning" title={waitsAs(job, job.waiting)}>
          {job.waiting.reason}
        </Notice>
      )}
    </>
  );
}

function Figures({ job }: { job: Job }) {
  const figures: [string, string][] = [
    ["Delivered", measured(job)],
    ["Estimated", milliseconds(job.estimated_ms)],
    ["Untuned", untunedOf(job)],
    ["Gain", gainOf(job)],
    [`Beside ${job.verdict?.peer || "its runtime"}`, besidePeer(job)],
    ["Trials", `${job.trials}${job.reused ? `, ${job.reused} known before` : ""}`],
    ["Trials a second", job.trials_per_s === null ? "–" : digits(job.trials_per_s)],
    ["Time left", isOver(job) ? "–" : duration(job.eta_s)],
    ["Took", duration(job.elapsed_s)],
  ];
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 9 }} spacing="xs" component="dl" m={0}>
      {figures.map(([name, value]) => (
        <Card key={name} withBorder padding="xs">
          <Text component="dt" size="sm" c="dimmed">
            {name}
          </Text>
          <Text component="dd" m={0} fw={600}>
            {value}
          </Text>
        </Card>
      ))}
    </SimpleGrid>
  );
}

function Errors({ job, tasks }: { job: Job; tasks: Task[] }) {
  if (Object.keys(job.errors).length === 0) return null;
  const first = (kind: string) => tasks.find((task) => task.messages[kind])?.messages[kind];
  return (
    <Notice kind="warning" title={`${job.failed} trial${job.failed === 1 ? "" : "s"} failed`}>
      {Object.entries(job.errors).map(([kind, count]) => (
        <Text size="sm" key={kind}>
          {count} x {kind}
          {first(kind) && `: ${first(kind)}`}
        </Text>
      ))}
    </Notice>
  );
}
