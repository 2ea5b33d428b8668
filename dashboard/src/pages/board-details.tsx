/** All that is known of one board: facts, use by the hour and by the day, drift, history. */
import { Button, Drawer, Stack, Table, Text, Title, useComputedColorScheme } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Board } from "../api/client";
import { api, data } from "../api/client";
import { useDays } from "../api/queries";
import type { components } from "../api/schema";
import { ago, percent, seconds } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { Failure, Loaded } from "../parts/states";
import type { Action } from "./board-actions";
import { Actions } from "./board-actions";
import { Activity } from "./board-activity";
import { Facts, States, Why } from "./board-card";

type Event = components["schemas"]["BoardEvent"];
type Props = { board: Board; onAsk: (action: Action) => void; onClose: () => void };

export function BoardDetails({ board, onAsk, onClose }: Props) {
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={`Board ${board.id}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack gap="sm">
        <States board={board} />
        <Why board={board} />
        <Actions board={board} onAsk={onAsk} />
        <Facts board={board} />
        <Activity board={board} />
        <Days board={board.id} />
        <History board={board.id} />
      </Stack>
    </Drawer>
  );
}

function Days({ board }: { board: string }) {
  const days = useDays(board);
  const scheme = useComputedColorScheme();
  const option = useMemo(() => {
    const items = days.data?.items ?? [];
    const colours = lines(scheme);
    const bars = { type: "bar", barGap: "-100%" };
    return {
      grid: { left: 44, right: 36, top: 28, bottom: 24 },
      legend: { top: 0, left: 0 },
      tooltip: { trigger: "axis" },
      xAxis: {
        type: "category",
        data: items.map((day) => day.at.slice(5, 10)),
        axisLabel: { hideOverlap: true },
      },
      yAxis: [
        { type: "value", min: 0, max: 1, interval: 0.5, axisLabel: { formatter: percent } },
        { type: "value", minInterval: 1, splitLine: { show: false } },
      ],
      series: [
        {
          ...bars,
          name: "leased",
          itemStyle: { opacity: 0.35 },
          color: colours[0],
          data: items.map((day) => Number(day.leased.toFixed(4))),
        },
        {
          ...bars,
          name: "inside the timer",
          color: colours[0],
          data: items.map((day) => Number(day.timing.toFixed(4))),
        },
        {
          type: "line",
          name: "faults",
          yAxisIndex: 1,
          color: colours[1],
          symbolSize: 5,
          data: items.map((day) => day.faults),
        },
      ],
    };
  }, [days.data, scheme]);
  return (
    <section aria-label="Use by day">
      <Title order={3} size="h6">
        Use by day
      </Title>
      <Loaded query={days}>
        {({ items }) => (
          <>
            <Text size="sm" c="dimmed">
              The last {items.length} days: {items.reduce((sum, day) => sum + day.trials, 0)} trials,{" "}
              {items.reduce((sum, day) => sum + day.faults, 0)} faults.
            </Text>
            <Chart
              option={option}
              height={150}
              label={`Use of ${board} on each of the last ${items.length} days`}
            />
          </>
        )}
      </Loaded>
    </section>
  );
}

function History({ board }: { board: string }) {
  const history = useInfiniteQuery({
    queryKey: ["boards", board, "history"],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/api/v1/boards/{board_id}/history", {
          params: {
            path: { board_id: board },
            query: { limit: 30, ...(pageParam !== undefined && { after: pageParam }) },
          },
        }),
      ),
    getNextPageParam: (page) => (page.next === null ? undefined : Number(page.next)),
  });
  const items = history.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <section aria-label="History">
      <Title order={3} size="h6">
        History
      </Title>
      {history.error && <Failure error={history.error} />}
      {history.data && items.length === 0 && <Text size="sm">Nothing has happened to it yet.</Text>}
      {items.length > 0 && (
        <Table verticalSpacing={2}>
          <Table.Tbody>
            {items.map((event) => (
              <Table.Tr key={event.id}>
                <Table.Td>
                  <Text size="xs" c="dimmed" title={event.at}>
                    {ago(event.at)}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Text size="sm" {...(isTrouble(event) && { c: "var(--failed)", fw: 600 })}>
                    {event.kind.replaceAll("_", " ")}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Text size="sm">{wordsOf(event)}</Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {history.hasNextPage && (
        <Button
          size="compact-sm"
          variant="default"
          onClick={() => void history.fetchNextPage()}
          loading={history.isFetchingNextPage}
        >
          Older
        </Button>
      )}
    </section>
  );
}

function isTrouble(event: Event): boolean {
  return event.kind === "fault" || event.kind.startsWith("lease_") || Boolean(event.detail["problem"]);
}

function wordsOf({ kind, detail }: Event): string {
  if (detail["problem"]) return String(detail["problem"]);
  if (kind === "check" && typeof detail["seconds"] === "number")
    return `passed, reference kernel ${seconds(detail["seconds"])}`;
  const change =
    detail["before"] && detail["before"] !== detail["health"]
      ? `${detail["before"]} → ${detail["health"]}`
      : "";
  return [change, detail["reason"]].filter(Boolean).join(": ");
}
