/** What a board did over the last hour, and how steady its reference kernel is. */
import { Text, useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";

import type { Board } from "../api/client";
import { useActivity } from "../api/queries";
import { percent, seconds } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";

const HEIGHT = 98;
const GRID = { left: 44, right: 28, top: 22, bottom: 20 };

export function Activity({ board }: { board: Board }) {
  const { data } = useActivity(board.id);
  const scheme = useComputedColorScheme();
  const color = lines(scheme)[0];
  const strip = useMemo(() => {
    const of = (what: "leased" | "timing") =>
      data?.slots.map((slot) => [Date.parse(slot.at), slot[what]]) ?? [];
    const bars = { type: "bar", barGap: "-100%", barCategoryGap: 0 };
    return {
      grid: GRID,
      tooltip: { trigger: "axis", valueFormatter: (value: number) => percent(value) },
      xAxis: { type: "time", axisLabel: { hideOverlap: true } },
      yAxis: { type: "value", min: 0, max: 1, interval: 0.5, axisLabel: { formatter: percent } },
      series: [
        { ...bars, name: "leased", color, itemStyle: { opacity: 0.35 }, data: of("leased") },
        { ...bars, name: "inside the timer", color, data: of("timing") },
      ],
    };
  }, [data, color]);
  const drift = useMemo(
    () => ({
      grid: GRID,
      tooltip: {
        trigger: "item",
        formatter: (point: { value: [number, number, number] }) =>
          `${seconds(point.value[2])}, ${point.value[1].toFixed(1)} % over the best`,
      },
      xAxis: { type: "time", axisLabel: { hideOverlap: true } },
      yAxis: {
        type: "value",
        min: 0,
        max: ({ max }: { max: number }) => Math.max(5, Math.ceil(max)),
        splitNumber: 2,
        axisLabel: { formatter: "{value} %" },
      },
      series: [
        {
          type: "line",
          color: lines(scheme)[1],
          symbolSize: 5,
          data:
            data?.checks
              .filter((check) => check.drift !== null)
              .map((check) => [Date.parse(check.at), (check.drift! - 1) * 100, check.seconds]) ?? [],
        },
      ],
    }),
    [data, scheme],
  );
  if (!data) return null;
  const busy = data.slots.reduce((sum, slot) => sum + slot.timing, 0) / Math.max(1, data.slots.length);
  const drifts = data.checks.flatMap((check) => (check.drift === null ? [] : [check.drift - 1]));
  return (
    <>
      <Text size="sm" c="dimmed">
        The last hour: leased, and of that inside the timer
      </Text>
      <Chart
        option={strip}
        height={HEIGHT}
        label={`Use of ${board.id} over the last hour: ${percent(busy)} of the time inside the timer`}
      />
      {drifts.length > 1 && (
        <>
          <Text size="sm" c="dimmed">
            Reference kernel over its best, by health check
          </Text>
          <Chart
            option={drift}
            height={HEIGHT}
            label={`Drift of the reference kernel of ${board.id}: ${drifts.length} health checks, at most ${percent(
              Math.max(...drifts),
            )} over the best`}
          />
        </>
      )}
    </>
  );
}
