/** The best against what the machine can do at all: its measured peak, and its measured way to memory. */
import { Text, useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";

import type { components } from "../api/schema";
import { digits, percent, rate, seconds } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { steps } from "../parts/log-axis";
import { Empty } from "../parts/states";
import type { Trial } from "./workload-best";
import type { Baseline } from "./workload-charts";
import { kernelOf } from "./workload-charts";

type View = components["schemas"]["WorkloadView"];
type Measured = View["measured"][number];

/** What memory and arithmetic allow, in billions of operations a second; null where neither was measured. */
export function roofOf(view: View, here: Measured): number | null {
  const intensity = view.flops / view.bytes;
  // The peak is that of float32; integers have others.
  const peak = view.unit === "FLOP" ? here.peak_gflops : null;
  const memory = here.bandwidth_gbs === null ? null : here.bandwidth_gbs * intensity;
  if (peak === null && memory === null) return null;
  return Math.min(peak ?? Infinity, memory ?? Infinity);
}

export function Roofline({
  view,
  here,
  trials,
  best,
  libraries,
}: {
  view: View;
  here: Measured;
  trials: Trial[];
  best: Trial;
  libraries: Baseline[];
}) {
  const scheme = useComputedColorScheme();
  const roof = roofOf(view, here);
  const intensity = view.flops / view.bytes;
  const best_s = best.ranking_s!;
  const option = useMemo(() => {
    const giga = (cost: number) => view.flops / cost / 1e9;
    const peak = view.unit === "FLOP" ? here.peak_gflops : null;
    const bandwidth = here.bandwidth_gbs;
    const ridge = peak && bandwidth ? peak / bandwidth : intensity;
    const low = 2 ** Math.floor(Math.log2(Math.min(ridge, intensity) / 6));
    const high = 2 ** Math.ceil(Math.log2(Math.max(ridge, intensity) * 6));
    const places = Array.from({ length: 65 }, (_, at) => low * (high / low) ** (at / 64));
    const under = (at: number) => Math.min(peak ?? Infinity, bandwidth ? bandwidth * at : Infinity);
    const rates = trials.map((trial) => giga(trial.ranking_s!));
    const top = Math.max(peak ?? 0, ...rates, ...libraries.map((each) => giga(each.seconds)));
    const [slowest, fastest] = [Math.min(...rates) / 1.5, top * 1.5];
    const colours = lines(scheme);
    return {
      grid: { left: 76, right: 24, top: 40, bottom: 44 },
      legend: { top: 0, left: 0, right: 80, type: "scroll" },
      tooltip: {
        trigger: "item",
        formatter: ({ seriesName, value }: { seriesName: string; value: [number, number] }) =>
          `${seriesName}: ${rate(value[1], view.unit)}`,
      },
      xAxis: {
        type: "log",
        // Of ten powers and more, ECharts names the first alone.
        logBase: high / low < 2 ** 10 ? 2 : 4,
        min: low,
        max: high,
        name: `operations a byte`,
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: (value: number) => digits(value), hideOverlap: true },
      },
      yAxis: {
        type: "log",
        min: slowest,
        max: fastest,
        name: `G${view.unit}/s`,
        nameLocation: "middle",
        nameGap: 56,
        ...steps(slowest, fastest, digits),
      },
      series: [
        {
          type: "line",
          name: "roof, measured",
          symbol: "none",
          color: colours[1],
          lineStyle: { width: 2 },
          data: places.map((at) => [at, under(at)]).filter((point) => Number.isFinite(point[1])),
        },
        {
          type: "scatter",
          name: "trials",
          symbolSize: 5,
          color: colours[0],
          itemStyle: { opacity: 0.35 },
          data: rates.map((each) => [intensity, each]),
        },
        {
          type: "scatter",
          name: "best",
          symbol: "diamond",
          symbolSize: 16,
          color: colours[2],
          data: [[intensity, giga(best_s)]],
        },
        ...libraries.map((each, at) => ({
          type: "scatter",
          name: each.library,
          symbol: "triangle",
          symbolSize: 11,
          color: colours[3 + (at % 4)],
          data: [[intensity, giga(each.seconds)]],
        })),
      ],
    };
  }, [view, here, trials, libraries, best_s, intensity, scheme]);
  if (roof === null)
    return (
      <Empty title="The roof was not measured yet">
        The next job on this target with as many threads measures its peak and its way to memory.
      </Empty>
    );
  const reached = view.flops / best_s / 1e9 / roof;
  const bound = here.bandwidth_gbs && roof === here.bandwidth_gbs * intensity ? "memory" : "arithmetic";
  return (
    <>
      <Text size="sm" c="dimmed">
        {view.unit === "FLOP" && here.peak_gflops !== null && `Peak ${rate(here.peak_gflops, "FLOP")}. `}
        {here.bandwidth_gbs !== null
          ? `Memory gives ${digits(here.bandwidth_gbs)} GB/s. `
          : "The way to memory was not measured yet. "}
        The best is at {percent(reached)} of the roof, which is {bound} here
        {reached > 1 &&
          (/winograd/.test(kernelOf(best))
            ? ". It is above it as Winograd does fewer operations than are counted"
            : ". It is above it: the roof was measured while something else ran")}
        {view.unit === "OP" && "; the peak of integers is not measured"}.
      </Text>
      <Chart
        option={option}
        height={340}
        label={`Roofline: the best, ${seconds(best_s)}, reaches ${percent(reached)} of what ${bound} allows`}
      />
    </>
  );
}
