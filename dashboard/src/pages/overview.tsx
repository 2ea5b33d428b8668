/** Running jobs, the fleet, and what was found last. */
import { Anchor, Button, Card, Group, Progress, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { Link } from "wouter";

import type { Board, Job } from "../api/client";
import { isOver } from "../api/live";
import { useBoards, useJobs } from "../api/queries";
import { duration, milliseconds, percent } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { Empty, Loaded } from "../parts/states";

export function Overview() {
  const jobs = useJobs();
  const boards = useBoards();
  return (
    <Stack gap="lg">
      <Loaded query={jobs}>{({ items }) => <Jobs jobs={items} />}</Loaded>
      <section aria-labelledby="fleet">
        <Title order={2} size="h4" id="fleet" mb="sm">
          Fleet
        </Title>
        <Loaded query={boards}>{({ items }) => <Fleet boards={items} />}</Loaded>
      </section>
    </Stack>
  );
}

function Jobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) {
    return (
      <Empty title="No job yet">
        Drop an ONNX file on{" "}
        <Anchor component={Link} href="/submit">
          Submit a model
        </Anchor>
        , or type <code>tilefleet submit model.onnx --target host --seconds 120</code>.
      </Empty>
    );
  }
  const running = jobs.filter((job) => !isOver(job));
  return (
    <>
      <section aria-labelledby="running">
        <Title order={2} size="h4" id="running" mb="sm">
          Running
        </Title>
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
      </section>
      <section aria-labelledby="recent">
        <Title order={2} size="h4" id="recent" mb="sm">
          Recent
        </Title>
        <RecentJobs jobs={jobs.filter(isOver)} />
      </section>
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
        {job.recommended_ms !== null && `, ${milliseconds(job.recommended_ms)} before tuning`}
      </Text>
      {job.waiting && (
        <Text size="sm" c="var(--warning)">
          Waits: {job.waiting.reason}
        </Text>
      )}
    </Card>
  );
}

function RecentJobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return <Text c="dimmed">None has ended.</Text>;
  return (
    <Table.ScrollContainer minWidth={560} scrollAreaProps={{ tabIndex: 0, "aria-label": "Recent jobs" }}>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            {["Job", "Target", "State", "Trials", "Estimated", "Before tuning", "Took"].map((head) => (
              <Table.Th key={head}>{head}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map((job) => (
            <Table.Tr key={job.id}>
              <Table.Td>
                <Anchor component={Link} href={`/jobs/${job.id}`}>
                  {nameOf(job)}
                </Anchor>
              </Table.Td>
              <Table.Td>
                {job.target} <ClockMark clock={job.clock} />
              </Table.Td>
              <Table.Td>
                <StateBadge state={job.state} />
              </Table.Td>
              <Table.Td>{job.trials}</Table.Td>
              <Table.Td>{milliseconds(job.estimated_ms)}</Table.Td>
              <Table.Td>{milliseconds(job.recommended_ms)}</Table.Td>
              <Table.Td>{duration(job.elapsed_s)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
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

/** The model's name, or what is tuned without one. */
export function nameOf(job: Job): string {
  return `${job.id} ${job.model_name ?? "one workload"}`;
}

/** How much of its budget a job has used, from 0 to 1. */
export function shareDone(job: Job): number {
  const { trials, seconds } = job.budget;
  return Math.min(1, Math.max(trials ? job.trials / trials : 0, seconds ? job.elapsed_s / seconds : 0));
}
