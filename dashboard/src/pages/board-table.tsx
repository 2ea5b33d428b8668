/** Many boards as a table: sorted by any column, in groups. */
import { Anchor, Group, Table, Text, UnstyledButton } from "@mantine/core";
import { Link } from "wouter";

import type { Board } from "../api/client";
import { ago, percent } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { SortHead } from "../parts/sortable";
import { reasonOf, stateOf, urgencyOf } from "./board-state";
import { driftOf, Tags, whereOf } from "./board-card";
import classes from "./boards.module.css";

type Column = {
  head: string;
  of: (board: Board) => number | string;
  /** Whether the first click has the largest first. */
  falls?: boolean;
  cell: (board: Board, onOpen: (board: Board) => void) => React.ReactNode;
};

const COLUMNS: Column[] = [
  {
    head: "Board",
    of: (board) => board.id,
    cell: (board, onOpen) => (
      <UnstyledButton fz="sm" fw={600} td="underline" onClick={() => onOpen(board)}>
        {board.id}
      </UnstyledButton>
    ),
  },
  {
    head: "State",
    of: urgencyOf,
    cell: (board) => (
      <Group gap="xs" wrap="nowrap">
        <StateBadge state={stateOf(board)} />
        {board.reason && (
          <Text size="xs" c="dimmed" lineClamp={1} maw={200} title={board.reason}>
            {reasonOf(board)}
          </Text>
        )}
      </Group>
    ),
  },
  {
    head: "Target",
    of: (board) => board.target,
    cell: (board) => (
      <>
        {board.target} <ClockMark clock={board.clock} />
      </>
    ),
  },
  {
    head: "Use",
    of: (board) => board.utilisation ?? 0,
    falls: true,
    cell: (board) => (
      <span className={classes.line}>
        <Bar share={board.utilisation ?? 0} />
      </span>
    ),
  },
  { head: "Drift", of: (board) => board.drift ?? 0, falls: true, cell: driftOf },
  { head: "Trials", of: (board) => board.trials, falls: true, cell: (board) => board.trials },
  { head: "Faults", of: (board) => board.faults, falls: true, cell: (board) => board.faults },
  {
    head: "Job",
    of: (board) => board.lease?.job ?? Infinity,
    cell: (board) =>
      board.lease?.job ? (
        <Anchor component={Link} href={`/jobs/${board.lease.job}`} size="sm">
          {board.lease.job}
        </Anchor>
      ) : (
        "–"
      ),
  },
  {
    head: "Seen",
    of: (board) => (board.last_seen ? Date.parse(board.last_seen) : 0),
    falls: true,
    cell: (board) => <span className={classes.line}>{ago(board.last_seen)}</span>,
  },
  {
    head: "Kind",
    of: whereOf,
    cell: (board) => (
      <Text size="sm" className={classes.line ?? ""}>
        {whereOf(board)}
      </Text>
    ),
  },
  { head: "Tags", of: (board) => board.tags.join(" "), cell: (board) => <Tags tags={board.tags} /> },
];

function Bar({ share }: { share: number }) {
  return (
    <>
      <span className={classes.bar} aria-hidden="true">
        <svg width="64" height="8">
          <rect width={64 * Math.min(1, share)} height="8" fill="var(--mantine-color-cyan-7)" />
        </svg>
      </span>
      {percent(share)}
    </>
  );
}

const GROUPS: Record<string, (board: Board) => string> = {
  target: (board) => board.target,
  state: stateOf,
  kind: (board) => board.kind || "not told",
  tag: (board) => board.tags.join(" ") || "no tags",
};

type Props = {
  boards: Board[];
  group: string | null;
  /** A column's head, with a minus before it for the other way than its first. */
  sort: string | null;
  onSort: (sort: string | null) => void;
  onOpen: (board: Board) => void;
};

export function BoardTable({ boards, group, sort, onSort, onOpen }: Props) {
  const asked = (sort ?? "State").replace(/^-/, "");
  const { head, of, falls = false } = COLUMNS.find((column) => column.head === asked) ?? COLUMNS[0]!;
  const backwards = sort?.startsWith("-") ?? false;
  const down = falls !== backwards;
  const sorted = [...boards].sort((one, other) => {
    const [first, last] = [of(one), of(other)];
    const order =
      typeof first === "string"
        ? first.localeCompare(String(last), undefined, { numeric: true })
        : first - Number(last);
    return (down ? -order : order) || one.id.localeCompare(other.id, undefined, { numeric: true });
  });
  const groupOf = GROUPS[group ?? ""];
  const groups = new Map<string, Board[]>();
  for (const board of sorted) {
    const name = groupOf ? groupOf(board) : "";
    groups.set(name, [...(groups.get(name) ?? []), board]);
  }
  return (
    <Table.ScrollContainer
      minWidth={1080}
      scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "group", "aria-label": "Boards" } }}
    >
      <Table verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr>
            {COLUMNS.map((column) => (
              <SortHead
                key={column.head}
                head={column.head}
                down={column.head === head ? down : null}
                onSort={() => onSort(column.head === head && !backwards ? `-${head}` : column.head)}
              />
            ))}
          </Table.Tr>
        </Table.Thead>
        {[...groups].map(([name, members]) => (
          <Table.Tbody key={name}>
            {groupOf && (
              <Table.Tr className={classes.group}>
                <Table.Th colSpan={COLUMNS.length} scope="rowgroup">
                  {name}: {members.length} {summary(members)}
                </Table.Th>
              </Table.Tr>
            )}
            {members.map((board) => (
              <Table.Tr key={board.id}>
                {COLUMNS.map((column) => (
                  <Table.Td key={column.head}>{column.cell(board, onOpen)}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        ))}
      </Table>
    </Table.ScrollContainer>
  );
}

function summary(boards: Board[]): string {
  const count = (state: string) => boards.filter((board) => stateOf(board) === state).length;
  const [measuring, away, bad] = ["measuring", "offline", "bad"].map(count);
  const parts = [
    measuring && `${measuring} measuring`,
    away && `${away} offline`,
    bad && `${bad} bad`,
  ].filter(Boolean);
  return parts.length ? `(${parts.join(", ")})` : "";
}
