/** One board of a few: its facts, its last hour, and what can be done. */
import { Anchor, Badge, Card, Group, SimpleGrid, Title, UnstyledButton } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import type { Board } from "../api/client";
import { ago, duration, percent, seconds } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { Fact } from "../parts/fact";
import { Notice } from "../parts/notice";
import type { Action } from "./board-actions";
import { reasonOf } from "./board-state";
import { Actions } from "./board-actions";
import { Activity } from "./board-activity";

type Props = { board: Board; onAsk: (action: Action) => void; onOpen: () => void };

export function BoardCard({ board, onAsk, onOpen }: Props) {
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Title order={3} size="h5">
          <UnstyledButton
            fz="inherit"
            fw="inherit"
            td="underline"
            onClick={onOpen}
            title="History and use by day"
          >
            {board.id}
          </UnstyledButton>
        </Title>
        <States board={board} />
      </Group>
      <Why board={board} />
      <Facts board={board} />
      <Activity board={board} />
      <Actions board={board} onAsk={onAsk} />
    </Card>
  );
}

export function States({ board }: { board: Board }) {
  return (
    <Group gap="xs">
      <ClockMark clock={board.clock} />
      <StateBadge state={board.draining ? "draining" : board.health} />
      <StateBadge state={board.activity} />
    </Group>
  );
}

export function Why({ board }: { board: Board }) {
  if (!board.reason) return null;
  return <Notice kind={board.health === "bad" ? "error" : "warning"}>{reasonOf(board)}</Notice>;
}

export function Facts({ board }: { board: Board }) {
  const facts: [string, ReactNode][] = [
    ["Target", `${board.target}: ${board.instruction_sets.join(", ")}`],
    ["Kind", whereOf(board)],
    ["Threads", `${board.threads}`],
    ["Tags", <Tags key="tags" tags={board.tags} />],
    ["Inside the timer", `${percent(board.utilisation)} of the last 5 minutes`],
    ["Since it came", `${percent(board.utilisation_total)}; ${board.trials} trials, ${board.faults} faults`],
    ["Reference kernel", `${seconds(board.reference_s)}, best ${seconds(board.best_reference_s)}`],
    ["Drift", driftOf(board)],
    ["Checked", ago(board.checked)],
    ["Seen", ago(board.last_seen)],
    ["Lease", <Lease key="lease" board={board} />],
  ];
  if (board.temperature_c !== null) facts.push(["Temperature", `${board.temperature_c.toFixed(0)} °C`]);
  return (
    <SimpleGrid cols={2} spacing="xs" my="sm" component="dl">
      {facts.map(([name, value]) => (
        <Fact key={name} name={name} value={value} />
      ))}
    </SimpleGrid>
  );
}

export const driftOf = (board: Board) =>
  board.drift === null ? "–" : `${((board.drift - 1) * 100).toFixed(1)} %`;

export function whereOf(board: Board): string {
  if (!board.kind) return "–";
  return board.address && board.address !== "dials in"
    ? `${board.kind} at ${board.address}`
    : board.address
      ? `${board.kind}, ${board.address}`
      : `${board.kind}, on this machine`;
}

export function Tags({ tags }: { tags: string[] }) {
  if (tags.length === 0) return "none";
  return (
    <Group gap={4} component="span" wrap="nowrap">
      {tags.map((tag) => (
        <Badge key={tag} size="sm" variant="default" tt="none">
          {tag}
        </Badge>
      ))}
    </Group>
  );
}

export function Lease({ board }: { board: Board }) {
  if (!board.lease) return "none";
  const { purpose, job, expires } = board.lease;
  const left = (Date.parse(expires) - Date.now()) / 1e3;
  return (
    <>
      {purpose}
      {job !== null && (
        <>
          {" "}
          of{" "}
          <Anchor component={Link} href={`/jobs/${job}`} size="sm">
            job {job}
          </Anchor>
        </>
      )}
      , {duration(Math.max(0, left))} left
    </>
  );
}
