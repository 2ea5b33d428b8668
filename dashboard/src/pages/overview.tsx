/** Running jobs, the fleet, and what was found last. */
import { Anchor, Button, Card, Group, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { Link } from "wouter";

import type { Board, Job } from "../api/client";
import { useJobList, useUnfinished } from "../api/job-queries";
import { OVER } from "../api/live";
import { useBoards, useRecentBests, useRecordRate } from "../api/queries";
import { duration, measured, milliseconds, percent, seconds } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { gainOf, nameOf, shareDone, untunedOf, waitsAs } from "../parts/job-names";
import { Section } from "../parts/section";
import { Spark } from "../parts/spark";
import { Empty, Loaded } from "../parts/states";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";
import { useFleetTab } from "../tab";

/** More cards, or lines, than these are for the page of jobs. */
const SHOWN = 50;

export function Overview() {
  const unfinished = useUnfinished(SHOWN);
  const ended = useJobList({ state: OVER, limit: SHOWN });
  useFleetTab("Overview", unfinished.data);
  const boards = useBoards();
  const bests = useRecentBests();
  return (
    <Stack gap="lg">
      <Loaded query={unfinished}>
        {({ items, running, queued }) => (
          <Loaded query={ended}>
            {(over) => <Jobs running={items} more={running + queued - items.length} ended={over.items} />}
          </Loaded>
        )}
      </Loaded>
      {bests.data && bests.data.items.length > 0 && (
        <Section title="Recent bests" order={2}>
          <DataTable
            label="Recent bests"
            minWidth={720}
            rows={bests.data.items}
            keyOf={(best) => best.record}
            columns={[
              {
                head: "Workload",
                cell: (best) => <WorkloadLink workload={best.workload_key} text={best.text} at={best} />,
              },
              {
                head: "Target",
                cell: (best) => (
                  <>
                    {best.target} <ClockMark clock={best.clock} />
                  </>
                ),
              },
              { head: "Best", cell: (best) => seconds(best.best_s) },
              { head: "Untuned", cell: (best) => seconds(best.recommended_s) },
              {
                head: "Job",
                cell: (best) => (
                  <Anchor component={Link} href={`/jobs/${best.job}`} size="sm">
                    {best.job}
                  </Anchor>
                ),
              },
              { head: "Config", cell: (best) => <ConfigText value={best.config} /> },
            ]}
          />
        </Section>
      )}
      <Section title="Fleet" order={2}>
        <RecordRate />
        <Loaded query={boards}>{({ items }) => <Fleet boards={items} />}</Loaded>
      </Section>
    </Stack>
  );
}

function RecordRate() {
  const rate = useRecordRate();
  if (!rate.data) return null;
  const counts = rate.data.items.map((minute) => minute.records);
  // The present minute is not over.
  const last = counts.at(-2) ?? 0;
  return (
    <Group mb="sm">
      <Text>{last} records a minute</Text>
      <Spark
        values={counts.slice(0, -1)}
        label={`Records a minute over the last hour, ${last} in the last`}
      />
      <Text size="sm" c="dimmed">
        the last hour, {counts.reduce((sum, count) => sum + count, 0)} in all
      </Text>
    </Group>
  );
}

function Jobs({ running, more, ended }: { running: Job[]; more: number; ended: Job[] }) {
  if (running.length === 0 && ended.length === 0) {
    return (
      <Section title="Jobs" order={2}>
        <Empty title="No job yet">
          Drop an ONNX or TFLite file on{" "}
          <Anchor component={Link} href="/submit">
            Submit a model
          </Anchor>
          , or type <code>tilefleet submit model.onnx --target host --seconds 120</code>.
        </Empty>
      </Section>
    );
  }
  return (
    <>
      <Section title="Running" order={2}>
        {running.length === 0 && (
          <Group>
            <Text c="dimmed">Nothing runs.</Text>
            <Button component={Link} href="/submit" size="compact-sm" variant="light">
              Submit a model
            </Button>
          </Group>
        )}
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          {running.map((job) => (
            <RunningJob key={job.id} job={job} />
          ))}
        </SimpleGrid>
        {more > 0 && (
          <Text size="sm">
            {more} more are on{" "}
            <Anchor component={Link} href="/jobs">
              Jobs
            </Anchor>
            .
          </Text>
        )}
      </Section>
      <Section title="Recent" order={2}>
        <RecentJobs jobs={ended} />
      </Section>
    </>
  );
}

function RunningJob({ job }: { job: Job }) {
  const share = shareDone(job);
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between" wrap="nowrap">
        <Anchor component={Link} href={`/jobs/${job.id}`} fw={600}>
          {nameOf(job)}
        </Anchor>
        <Group gap="xs">
          <ClockMark clock={job.clock} />
          <StateBadge state={job.state} />
        </Group>
      </Group>
      <Progress value={share * 100} my="sm" aria-label={`Progress of job ${job.id}`} />
      <Text size="sm">
        {job.target}, {job.trials} trials, {job.trials_per_s?.toFixed(1) ?? "–"} a second,{" "}
        {job.eta_s === null ? "no estimate of the end" : `${duration(job.eta_s)} left`}
      </Text>
      <Text size="sm">
        {job.estimated_ms === null ? "no estimate yet" : `${milliseconds(job.estimated_ms)} estimated`}
      </Text>
      {job.waiting && (
        <Text size="sm" c="var(--warning)">
          {waitsAs(job, job.waiting)}: {job.waiting.reason}
        </Text>
      )}
    </Card>
  );
}

function RecentJobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return <Text c="dimmed">None has ended.</Text>;
  return (
    <DataTable
      label="Recent jobs"
      minWidth={560}
      rows={jobs}
      keyOf={(job) => job.id}
      columns={[
        {
          head: "Job",
          cell: (job) => (
            <Anchor component={Link} href={`/jobs/${job.id}`} size="sm">
              {nameOf(job)}
            </Anchor>
          ),
        },
        {
          head: "Target",
          cell: (job) => (
            <>
              {job.target} <ClockMark clock={job.clock} />
            </>
          ),
        },
        { head: "State", cell: (job) => <StateBadge state={job.state} /> },
        { head: "Trials", cell: (job) => job.trials },
        { head: "Measured", cell: measured },
        { head: "Estimated", cell: (job) => milliseconds(job.estimated_ms) },
        { head: "Untuned", cell: untunedOf },
        { head: "Gain", cell: gainOf },
        { head: "Took", cell: (job) => duration(job.elapsed_s) },
      ]}
    />
  );
}

function Fleet({ boards }: { boards: Board[] }) {
  if (boards.length === 0) return <Text c="dimmed">No board is attached.</Text>;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
      {boards.map((board) => (
        <Card key={board.id} withBorder padding="sm">
          <Group justify="space-between">
            <Anchor component={Link} href="/boards" fw={600}>
              {board.id}
            </Anchor>
            <Group gap="xs">
              <ClockMark clock={board.clock} />
              <StateBadge state={board.health} />
              <StateBadge state={board.activity} />
            </Group>
          </Group>
          <Text size="sm" mt="xs">
            {board.target}, {board.trials} trials, {percent(board.utilisation)} of the time measuring
          </Text>
          {board.reason && (
            <Text size="sm" c="var(--warning)">
              {board.reason}
            </Text>
          )}
        </Card>
      ))}
    </SimpleGrid>
  );
}
