/** The fleet: cards for a few boards, a table for many; how each is, and what an operator can do about it. */
import {
  Anchor,
  Button,
  Group,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useMemo, useState } from "react";
import { Link } from "wouter";

import type { Board } from "../api/client";
import { useBoardEvents } from "../api/live";
import { useBoards } from "../api/queries";
import { Choice } from "../parts/section";
import { Empty, Loaded } from "../parts/states";
import { useAddress, useTyped } from "../parts/url-state";
import { useTitle } from "../tab";
import type { Action } from "./board-actions";
import { Ask } from "./board-actions";
import { BoardCard } from "./board-card";
import { BoardDetails } from "./board-details";
import { STATES, isIn } from "./board-state";
import { BoardTable } from "./board-table";
import { FleetTiles } from "./board-tiles";

/** More than so many are shown as a table, unless told otherwise. */
const FEW = 6;

export default function Boards() {
  useTitle("Boards");
  const boards = useBoards();
  useBoardEvents();
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={2} size="h3">
          Boards
        </Title>
        <Anchor component={Link} href="/wall" size="sm">
          For a screen on the wall
        </Anchor>
      </Group>
      <Loaded query={boards}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No board is attached">
              Start the coordinator with --boards host, or with a fleet file.
            </Empty>
          ) : (
            <Fleet boards={items} />
          )
        }
      </Loaded>
    </Stack>
  );
}

function Fleet({ boards }: { boards: Board[] }) {
  const [asked, change] = useAddress();
  const [typed, type] = useTyped("search");
  const [action, act] = useState<{ board: Board; action: Action } | null>(null);
  const words = (asked.get("search") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const target = asked.get("target");
  const state = asked.get("state");
  const shown = useMemo(
    () =>
      boards.filter((board) => {
        const text = [board.id, board.target, board.kind, board.address, board.reason, ...board.tags];
        return (
          (target === null || board.target === target) &&
          isIn(board, state) &&
          words.every((word) => text.join(" ").toLowerCase().includes(word))
        );
      }),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [boards, target, state, words.join(" ")],
  );
  const view = asked.get("view") ?? (boards.length > FEW ? "table" : "cards");
  const opened = boards.find((board) => board.id === asked.get("board"));
  const targets = [...new Set(boards.map((board) => board.target))].sort();
  return (
    <>
      <FleetTiles boards={boards} onPick={(picked) => change({ state: picked === state ? null : picked })} />
      <Group align="end">
        <TextInput
          label="Words"
          size="xs"
          placeholder="name, tag, kind, address"
          value={typed}
          onChange={(event) => type(event.currentTarget.value)}
        />
        <Choice
          label="Target"
          data={["any", ...targets]}
          value={target ?? "any"}
          onChange={(value) => change({ target: value === "any" ? null : value })}
        />
        <Choice
          label="State"
          data={["any", ...STATES]}
          value={state ?? "any"}
          onChange={(value) => change({ state: value === "any" ? null : value })}
        />
        {view === "table" && (
          <Choice
            label="Grouped by"
            data={["nothing", "target", "state", "kind", "tag"]}
            value={asked.get("group") ?? "nothing"}
            onChange={(value) => change({ group: value === "nothing" ? null : value })}
          />
        )}
        <SegmentedControl
          size="xs"
          aria-label="How boards are shown"
          data={["table", "cards"]}
          value={view}
          onChange={(value) => change({ view: value })}
        />
        <Text size="sm" c="dimmed" role="status">
          {shown.length === boards.length ? `${boards.length} boards` : `${shown.length} of ${boards.length}`}
        </Text>
      </Group>
      {shown.length === 0 ? (
        <Empty title="No such board">
          <Button
            variant="light"
            size="compact-sm"
            onClick={() => {
              type("");
              change({ search: null, target: null, state: null });
            }}
          >
            Show all
          </Button>
        </Empty>
      ) : view === "table" ? (
        <BoardTable
          boards={shown}
          group={asked.get("group")}
          sort={asked.get("sort")}
          onSort={(sort) => change({ sort })}
          onOpen={(board) => change({ board: board.id })}
        />
      ) : (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {shown.map((board) => (
            <BoardCard
              key={board.id}
              board={board}
              onAsk={(wanted) => act({ board, action: wanted })}
              onOpen={() => change({ board: board.id })}
            />
          ))}
        </SimpleGrid>
      )}
      {opened && !action && (
        <BoardDetails
          board={opened}
          onAsk={(wanted) => act({ board: opened, action: wanted })}
          onClose={() => change({ board: null })}
        />
      )}
      {action && <Ask {...action} onClose={() => act(null)} />}
    </>
  );
}
