/** One job, live: how the model gets faster, task by task, and what to do with it. */
import {
  Alert,
  Anchor,
  Button,
  Card,
  Group,
  Progress,
  SimpleGrid,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";

import type { Job, Task } from "../api/client";
import { api, data } from "../api/client";
import type { Link as Connection } from "../api/live";
import { isOver, useJobEvents } from "../api/live";
import { useJob, useProgress, useTasks } from "../api/queries";
import { config, duration, milliseconds, percent, seconds } from "../format";
import { StateBadge } from "../parts/badges";
import { Chart } from "../parts/chart";
import { ClockMark } from "../parts/clock";
import { Empty, Failure, Loaded } from "../parts/states";
import { nameOf, shareDone } from "./overview";

export default function JobPage({ id }: { id: number }) {
  const job = useJob(id);
  const tasks = useTasks(id);
  const link = useJobEvents(job.data);
  return (
    <Loaded query={job}>
      {(found) => (
        <Stack gap="md">
          <Header job={found} link={link} />
          <Figures job={found} />
          <Errors job={found} tasks={tasks.data?.items ?? []} />
          <Loaded query={tasks}>
            {({ items }) => (
              <>
                <SimpleGrid cols={{ base: 1, lg: 2 }}>
                  <WholeModel job={found} />
                  <Curves job={found} tasks={items} />
                </SimpleGrid>
                <Tasks job={found} tasks={items} />
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
          {link === "lost" && !isOver(job) && (
            <Text c="var(--warning)" size="sm" role="status">
              connection lost, trying again
            </Text>
          )}
        </Group>
        <Group gap="xs">
          {isOver(job) ? (
            <Button onClick={() => act.mutate("resume")} loading={act.isPending}>
              Resume
            </Button>
          ) : (
            <Button color="red" variant="light" onClick={() => act.mutate("cancel")} loading={act.isPending}>
              Cancel
            </Button>
          )}
          <Button component="a" variant="default" href={`/api/v1/jobs/${job.id}/log?select=best`} download>
            Best configs
          </Button>
          <Button component="a" variant="default" href={`/api/v1/jobs/${job.id}/log?select=all`} download>
            Whole log
          </Button>
        </Group>
      </Group>
      <Progress value={shareDone(job) * 100} aria-label="Share of the budget that is used" />
      {act.error && <Failure error={act.error} />}
      {job.message && (
        <Alert color={job.state === "failed" ? "red" : "yellow"} title={job.state}>
          {job.message}
        </Alert>
      )}
      {job.waiting && (
        <Alert color="yellow" title={`Waits for a board, place ${job.waiting.position}`}>
          {job.waiting.reason}
        </Alert>
      )}
    </>
  );
}

function Figures({ job }: { job: Job }) {
  const gain = job.estimated_ms && job.recommended_ms ? job.recommended_ms / job.estimated_ms : null;
  const figures: [string, string][] = [
    ["Whole model", milliseconds(job.estimated_ms)],
    ["Before tuning", milliseconds(job.recommended_ms)],
    ["Gain", gain === null ? "–" : `${gain.toFixed(2)} x`],
    ["Trials", `${job.trials}${job.reused ? `, ${job.reused} known before` : ""}`],
    ["Trials a second", job.trials_per_s?.toFixed(1) ?? "–"],
    ["Time left", isOver(job) ? "–" : duration(job.eta_s)],
    ["Took", duration(job.elapsed_s)],
    ["Peak", job.peak_gflops ? `${job.peak_gflops.toFixed(0)} GFLOP/s` : "–"],
  ];
  return (
    <SimpleGrid cols={{ base: 2, sm: 4 }} component="dl" m={0}>
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
    <Alert color="yellow" title={`${job.failed} trials failed`}>
      {Object.entries(job.errors).map(([kind, count]) => (
        <Text size="sm" key={kind}>
          {count} x {kind}
          {first(kind) && `: ${first(kind)}`}
        </Text>
      ))}
    </Alert>
  );
}

function WholeModel({ job }: { job: Job }) {
  const progress = useProgress(job.id);
  const option = useMemo(
    () => ({
      grid: { left: 64, right: 16, top: 16, bottom: 40 },
      tooltip: { trigger: "axis" },
      xAxis: {
        type: "value",
        name: "trial",
        nameLocation: "middle",
        nameGap: 24,
        min: "dataMin",
        max: "dataMax",
      },
      yAxis: { type: "value", name: "ms", scale: true },
      series: [
        {
          type: "line",
          step: "end",
          showSymbol: false,
          name: "whole model, ms",
          data: progress.data?.points.map(({ trial, estimated_ms }) => [trial, estimated_ms]) ?? [],
          ...(job.recommended_ms !== null && {
            markLine: {
              symbol: "none",
              label: { formatter: "before tuning", position: "insideEndTop" },
              data: [{ yAxis: job.recommended_ms }],
            },
          }),
        },
      ],
    }),
    [progress.data, job.recommended_ms],
  );
  return (
    <section aria-labelledby="whole">
      <Title order={3} size="h5" id="whole">
        Whole model, estimated
      </Title>
      {progress.data?.points.length ? (
        <Chart
          option={option}
          label={`Estimated time of the whole model over trials, now ${milliseconds(job.estimated_ms)}`}
        />
      ) : (
        <Empty title="No estimate yet">It needs one measurement of every task.</Empty>
      )}
    </section>
  );
}

function Curves({ job, tasks }: { job: Job; tasks: Task[] }) {
  const option = useMemo(
    () => ({
      grid: { left: 64, right: 16, top: 16, bottom: 40 },
      tooltip: {
        trigger: "item",
        formatter: (point: { seriesName: string; value: [number, number] }) =>
          `${point.seriesName}\n${seconds(point.value[1])} at trial ${point.value[0] - 1}`,
      },
      xAxis: { type: "log", name: "trial of the task", nameLocation: "middle", nameGap: 24, min: 1 },
      yAxis: { type: "log", axisLabel: { formatter: (value: number) => seconds(value) } },
      series: tasks
        .filter((task) => task.curve.length > 0)
        .map((task) => ({
          type: "line",
          step: "end",
          symbolSize: 3,
          name: task.text,
          // A logarithm has no place for trial 0.
          data: task.curve.map(([trial, best]) => [trial! + 1, best]),
        })),
    }),
    [tasks],
  );
  return (
    <section aria-labelledby="curves">
      <Title order={3} size="h5" id="curves">
        Best of each task
      </Title>
      <Chart
        option={option}
        label={`Best time so far of ${tasks.length} tasks of job ${job.id} over their trials`}
      />
    </section>
  );
}

function Tasks({ job, tasks }: { job: Job; tasks: Task[] }) {
  return (
    <section aria-labelledby="tasks">
      <Title order={3} size="h5" id="tasks">
        Tasks
      </Title>
      <Table.ScrollContainer minWidth={900} scrollAreaProps={{ tabIndex: 0, "aria-label": "Tasks" }}>
        <Table verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              {[
                "Workload",
                "Times",
                "State",
                "Trials",
                "Best",
                "Analysis",
                "GFLOP/s",
                "Of peak",
                "Best config",
              ].map((head) => (
                <Table.Th key={head}>{head}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {tasks.map((task) => (
              <Table.Tr key={task.id}>
                <Table.Td>
                  <Anchor
                    component={Link}
                    href={`/workloads/${task.workload_key}?target=${job.target}&threads=${job.threads}`}
                  >
                    {task.text}
                  </Anchor>
                </Table.Td>
                <Table.Td>{task.weight}</Table.Td>
                <Table.Td>
                  <StateBadge state={task.state} />
                </Table.Td>
                <Table.Td>{task.trials}</Table.Td>
                <Table.Td>{seconds(task.best_s)}</Table.Td>
                <Table.Td>{seconds(task.recommended_s)}</Table.Td>
                <Table.Td>{task.gflops?.toFixed(1) ?? "–"}</Table.Td>
                <Table.Td>{percent(task.share_of_peak)}</Table.Td>
                <Table.Td>
                  <Text size="sm" ff="monospace">
                    {config(task.best_config)}
                  </Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Text size="sm" c="dimmed">
        GFLOP/s count the operations of a plain convolution: Winograd needs fewer, hence more than the peak.
      </Text>
    </section>
  );
}
