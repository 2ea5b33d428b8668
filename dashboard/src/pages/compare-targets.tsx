/** The same model on every target: the best that any job delivered on each, side by side. */
import { Anchor, Button, Group, Progress, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "wouter";

import type { Job } from "../api/client";
import { useOfModel } from "../api/job-queries";
import { ago, isSimulated, measured, milliseconds } from "../format";
import { ClockMark } from "../parts/clock";
import { gainOf, nameOf } from "../parts/job-names";
import { Section } from "../parts/section";
import { DataTable } from "../parts/table";
import type { Timed } from "./job-history";
import { alike, timeOf } from "./job-history";

type Best = Timed & { job: Job };

/** The fastest job of each target and clock: delivered models before estimates. By the wall clock first, then the
 * fastest first: only times of one clock have an order. */
function bestOf(jobs: Job[]): Best[] {
  const found = new Map<string, Best>();
  for (const job of jobs) {
    const time = timeOf(job);
    if (!time) continue;
    const key = `${job.target} ${job.clock}`;
    const known = found.get(key);
    const better =
      !known ||
      (time.delivered === known.delivered ? time.ms < known.ms : time.delivered && !known.delivered);
    if (better) found.set(key, { job, ...time });
  }
  const clockOf = ({ job: { clock } }: Best) => (isSimulated(clock) ? clock : "");
  return [...found.values()].sort(
    (one, other) => clockOf(one).localeCompare(clockOf(other)) || one.ms - other.ms,
  );
}

export function Targets({ job, set }: { job: Job; set: (ids: number[]) => void }) {
  const all = useOfModel(job);
  const best = useMemo(
    () => bestOf((all.data?.items ?? []).filter((other) => alike(job, other))),
    [job, all.data],
  );
  if (best.length < 2) return null;
  const alikeOf = (clock: string) => best.filter(({ job: each }) => each.clock === clock).map(({ ms }) => ms);
  return (
    <Section
      title={`${job.model_name} on each target`}
      beside={
        <Button
          ml="auto"
          size="compact-sm"
          variant="default"
          onClick={() => set(best.map((each) => each.job.id).slice(0, 8))}
        >
          Compare these
        </Button>
      }
    >
      <DataTable
        label="The best of each target"
        minWidth={760}
        rows={best}
        keyOf={({ job: each }) => each.id}
        columns={[
          {
            head: "Target",
            cell: ({ job: each }) => (
              <>
                {each.target} <ClockMark clock={each.clock} />
              </>
            ),
          },
          {
            head: "Takes",
            cell: ({ job: each, ms, delivered }) => (
              <Group gap="xs" wrap="nowrap">
                <Progress
                  value={(100 * ms) / Math.max(...alikeOf(each.clock))}
                  w={100}
                  aria-label={`${milliseconds(ms)} on ${each.target}`}
                />
                <Text size="sm" style={{ whiteSpace: "nowrap" }}>
                  {delivered ? measured(each) : `~ ${milliseconds(ms)}`}
                </Text>
              </Group>
            ),
          },
          {
            head: "Of the fastest",
            cell: ({ job: each, ms }) => `${(ms / Math.min(...alikeOf(each.clock))).toFixed(2)}\u00a0x`,
          },
          { head: "Gain by tuning", cell: ({ job: each }) => gainOf(each) },
          {
            head: "Job",
            cell: ({ job: each }) => (
              <Anchor component={Link} href={`/jobs/${each.id}`} size="sm">
                {nameOf(each)}
              </Anchor>
            ),
          },
          { head: "Version", cell: ({ job: each }) => each.version || "not kept" },
          { head: "Ended", cell: ({ job: each }) => ago(each.finished ?? each.created) },
        ]}
      />
      <Text size="sm" c="dimmed">
        The fastest of all jobs of this model with {job.threads} thread{job.threads > 1 ? "s" : ""},{" "}
        {job.numerics}. With ~ it is an estimate, as no job delivered it.
        {best.some(({ job: each }) => isSimulated(each.clock)) &&
          " Bars and ratios are among times of the same clock: those of two clocks are never compared."}
      </Text>
    </Section>
  );
}
