/** The fleet for a screen on the wall: what runs, how far it is, and which board needs somebody. */
import { Anchor, Button, Group, Progress, Stack, Text, Title } from "@mantine/core";
import { useEffect, useState } from "react";
import { Link } from "wouter";

import type { Board, Job } from "../api/client";
import { useJobList, useUnfinished } from "../api/job-queries";
import { OVER, useBoardEvents } from "../api/live";
import { useBoards, useRecordRate } from "../api/queries";
import { duration, measured, milliseconds, percent } from "../format";
import { Spark } from "../parts/spark";
import { Failure, Loaded } from "../parts/states";
import { needsSomebody, reasonOf, stateOf } from "./board-state";
import { nameOf, shareDone, untunedOf } from "../parts/job-names";
import { useFleetTab } from "../tab";
import classes from "./wall.module.css";

/** As many jobs as a screen has room for beside its boards. */
const SHOWN = 8;

export default function Wall() {
  const boards = useBoards();
  useBoardEvents();
  return (
    <Stack p="lg" gap="lg" component="main">
      <Group justify="space-between">
        <Title order={1}>Tilefleet</Title>
        <Group>
          <Clock />
          <Button variant="default" onClick={() => void document.documentElement.requestFullscreen()}>
            Full screen
          </Button>
          <Anchor component={Link} href="/boards">
            Back
          </Anchor>
        </Group>
      </Group>
      {boards.error && <Failure error={boards.error} />}
      <section aria-label="Jobs">
        <Running />
      </section>
      <section aria-label="Fleet">
        <Loaded query={boards}>{({ items }) => <Fleet boards={items} />}</Loaded>
      </section>
      <section aria-label="Last ended">
        <Title order={2} size="h3" mb="xs">
          Last ended
        </Title>
        <Ended />
      </section>
    </Stack>
  );
}

function Clock() {
  const [now, tick] = useState(new Date());
  useEffect(() => {
    const timer = window.setInterval(() => tick(new Date()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <Text size="xl" fw={600}>
      {now.toLocaleTimeString()}
    </Text>
  );
}

/** Those that run come before those that wait, whatever their number. */
function Running() {
  const unfinished = useUnfinished(SHOWN);
  useFleetTab("Wall", unfinished.data);
  return (
    <Loaded query={unfinished}>
      {({ items, running, queued }) => {
        return (
          <Stack gap="sm">
            <Title order={2}>
              {running ? `${running} job${running > 1 ? "s" : ""} running` : "No job runs"}
              {queued > 0 && `, ${queued} queued`}
            </Title>
            {items.map((job) => (
              <div key={job.id}>
                <Group justify="space-between">
                  <Anchor component={Link} href={`/jobs/${job.id}`} size="lg" fw={600}>
                    {nameOf(job)} on {job.target}
                  </Anchor>
                  <Text size="lg">
                    {milliseconds(job.estimated_ms)}, {job.trials} trials
                    {job.eta_s !== null && `, ${duration(job.eta_s)} left`}
                    {job.waiting && `; it waits: ${job.waiting.reason}`}
                  </Text>
                </Group>
                <Progress
                  value={100 * (shareDone(job) ?? 0)}
                  size="xl"
                  aria-label={`Progress of job ${job.id}: ${percent(shareDone(job))}`}
                />
              </div>
            ))}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Fleet({ boards }: { boards: Board[] }) {
  const rate = useRecordRate();
  const there = boards.filter((board) => board.health !== "retired");
  const trouble = there.filter(needsSomebody).length;
  const counts = rate.data?.items.map((minute) => minute.records) ?? [];
  return (
    <>
      <Group justify="space-between" mb="xs">
        <Title order={2}>
          {there.length} boards{trouble > 0 && `, ${trouble} need somebody`}
        </Title>
        <Group gap="xs">
          <Spark values={counts} label={`Records a minute over the last hour, now ${counts.at(-2) ?? 0}`} />
          <Text>{counts.at(-2) ?? 0} records a minute</Text>
        </Group>
      </Group>
      <ul className={classes.fleet} aria-label="Boards">
        {there.map((board) => (
          <li key={board.id} data-state={stateOf(board)} className={classes.board} title={reasonOf(board)}>
            <Link href={`/boards?board=${encodeURIComponent(board.id)}`} className={classes.link ?? ""}>
              {board.id}
            </Link>
            <span className={classes.what}>
              {stateOf(board)}
              {board.lease?.job ? ` · job ${board.lease.job}` : ""}
            </span>
            <span className={classes.what}>{board.target}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Ended() {
  const jobs = useJobList({ state: OVER, limit: 100 });
  const when = (job: Job) => Date.parse(job.finished ?? job.created);
  const ended = [...(jobs.data?.items ?? [])].sort((one, other) => when(other) - when(one)).slice(0, 5);
  if (ended.length === 0) return <Text c="dimmed">None yet.</Text>;
  return (
    <Stack gap={4}>
      {ended.map((job) => (
        <Group key={job.id} gap="sm">
          <Text fw={600} {...(job.state === "failed" && { c: "var(--failed)" })}>
            {job.state}
          </Text>
          <Anchor component={Link} href={`/jobs/${job.id}`}>
            {nameOf(job)} on {job.target}
          </Anchor>
          <Text>
            {job.verdict && <>{untunedOf(job)} → </>}
            {job.built?.measured_ms ? measured(job) : milliseconds(job.estimated_ms)}
          </Text>
        </Group>
      ))}
    </Stack>
  );
}
