/** The fleet: what each board does, how it is, and what an operator can do about it. */
import { Button, Card, Group, Modal, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { Board } from "../api/client";
import { api, data } from "../api/client";
import { useEvents } from "../api/live";
import { useBoards } from "../api/queries";
import { ago, duration, percent, seconds } from "../format";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { Notice } from "../parts/notice";
import { Empty, Failure, Loaded } from "../parts/states";
import { Activity } from "./board-activity";

type Action = "drain" | "park" | "return";

export default function Boards() {
  const boards = useBoards();
  const queries = useQueryClient();
  const [asked, setAsked] = useState<{ board: Board; action: Action } | null>(null);
  useEvents(
    "/api/v1/boards/events",
    ["board"],
    () => void queries.invalidateQueries({ queryKey: ["boards"], exact: true }),
  );
  return (
    <Stack>
      <Title order={2} size="h3">
        Boards
      </Title>
      <Loaded query={boards}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No board is attached">
              Start the coordinator with --boards host, or with a fleet file.
            </Empty>
          ) : (
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              {items.map((board) => (
                <BoardCard key={board.id} board={board} onAsk={(action) => setAsked({ board, action })} />
              ))}
            </SimpleGrid>
          )
        }
      </Loaded>
      {asked && <Ask {...asked} onClose={() => setAsked(null)} />}
    </Stack>
  );
}

function BoardCard({ board, onAsk }: { board: Board; onAsk: (action: Action) => void }) {
  const out =
    board.health === "bad" || board.health === "maintenance" || board.health === "retired" || board.draining;
  const facts: [string, string][] = [
    ["Target", `${board.target}: ${board.instruction_sets.join(", ")}`],
    ["Threads", `${board.threads}`],
    ["Measuring", `${percent(board.utilisation)} of 5 minutes, ${percent(board.utilisation_total)} in all`],
    ["Trials", `${board.trials}, ${board.faults} faults`],
    ["Reference kernel", `${seconds(board.reference_s)}, best ${seconds(board.best_reference_s)}`],
    ["Drift", board.drift === null ? "–" : `${((board.drift - 1) * 100).toFixed(1)} %`],
    ["Checked", ago(board.checked)],
    ["Seen", ago(board.last_seen)],
    ["Lease", board.lease ? leaseOf(board) : "none"],
  ];
  if (board.temperature_c !== null) facts.push(["Temperature", `${board.temperature_c.toFixed(0)} °C`]);
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Title order={3} size="h5">
          {board.id}
        </Title>
        <Group gap="xs">
          <ClockMark clock={board.clock} />
          <StateBadge state={board.health} />
          <StateBadge state={board.activity} />
        </Group>
      </Group>
      {board.reason && <Notice kind={board.health === "bad" ? "error" : "warning"}>{board.reason}</Notice>}
      <SimpleGrid cols={2} spacing="xs" my="sm" component="dl">
        {facts.map(([name, value]) => (
          <div key={name}>
            <Text component="dt" size="sm" c="dimmed">
              {name}
            </Text>
            <Text component="dd" size="sm" m={0}>
              {value}
            </Text>
          </div>
        ))}
      </SimpleGrid>
      <Activity board={board} />
      <Group gap="xs">
        {out ? (
          <Button size="compact-sm" variant="light" onClick={() => onAsk("return")}>
            Return to service
          </Button>
        ) : (
          <>
            <Button size="compact-sm" variant="default" onClick={() => onAsk("drain")}>
              Drain
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => onAsk("park")}>
              Park
            </Button>
          </>
        )}
      </Group>
    </Card>
  );
}

function leaseOf(board: Board): string {
  const { purpose, job, expires } = board.lease!;
  const left = (Date.parse(expires) - Date.now()) / 1e3;
  return `${purpose}${job === null ? "" : ` of job ${job}`}, ${duration(Math.max(0, left))} left`;
}

const WORDS: Record<Action, string> = {
  drain: "It finishes what it measures and then gets nothing more.",
  park: "It is taken out of service at once.",
  return: "It is checked, and gets trials again when the check passes.",
};

function Ask({ board, action, onClose }: { board: Board; action: Action; onClose: () => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const path = { params: { path: { board_id: board.id } }, body: { reason: reason || null } };
  const act = useMutation({
    mutationFn: () => {
      if (action === "park")
        return data(api.POST("/api/v1/boards/{board_id}/park", { ...path, body: { reason } }));
      return data(
        action === "drain"
          ? api.POST("/api/v1/boards/{board_id}/drain", path)
          : api.POST("/api/v1/boards/{board_id}/return", path),
      );
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["boards"] });
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`${action} ${board.id}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          act.mutate();
        }}
      >
        <Stack>
          <Text size="sm">{WORDS[action]}</Text>
          <TextInput
            label="Reason"
            description="It goes into the board's history."
            required={action === "park"}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            data-autofocus
          />
          {act.error && <Failure error={act.error} />}
          <Button type="submit" loading={act.isPending}>
            {action === "return" ? "Return" : action === "park" ? "Park" : "Drain"}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
