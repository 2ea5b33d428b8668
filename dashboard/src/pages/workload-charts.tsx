/** The trials of a workload over time or one knob, and the best over two knobs at once. */
import { useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";

import type { components } from "../api/schema";
import { config, digits, seconds } from "../format";
import { Chart, DIGITS, ZOOM } from "../parts/chart";
import { between, ramp, readableOn } from "../parts/chart-colours";
import { steps } from "../parts/log-axis";
import type { Trial } from "./workload-best";
import { byRank } from "./workload-best";

export type Baseline = components["schemas"]["Baseline"];

/** Stands among the knobs for the order of measurement. */
export const ORDER = "order of measurement";

/** Knobs with more than one value, the kernel first. */
export function knobsOf(trials: Trial[]): string[] {
  const values = new Map<string, Set<number | string>>();
  for (const trial of trials) {
    for (const [knob, value] of Object.entries(trial.config)) {
      values.set(knob, (values.get(knob) ?? new Set()).add(value));
    }
  }
  const names = [...values.keys()].sort((one, other) => values.get(other)!.size - values.get(one)!.size);
  const varied = names.filter((knob) => values.get(knob)!.size > 1);
  const others = (varied.length ? varied : names).filter((knob) => knob !== "kernel");
  return ["kernel", ...others].slice(0, 20);
}

export const kernelOf = (trial: Trial) => String(trial.config["kernel"]);

type Scatter = {
  trials: Trial[];
  over: string;
  libraries: Baseline[];
  chosen: number | null;
  onChoose: (record: number) => void;
};

export function OneKnob({ trials, over, libraries, chosen, onChoose }: Scatter) {
  const option = useMemo(() => {
    const kernels = [...new Set(trials.map(kernelOf))];
    const valueOf = (trial: Trial, index: number) =>
      over === ORDER ? index : String(trial.config[over] ?? "–");
    const costs = [...trials.map((trial) => trial.ranking_s!), ...libraries.map((each) => each.seconds)];
    const [low, high] = [Math.min(...costs) * 0.95, Math.max(...costs) * 1.05];
    const points = trials.map((trial, index) => [
      valueOf(trial, index),
      trial.ranking_s,
      config(trial.config),
      trial.record,
    ]);
    return {
      grid: { left: 64, right: 24, top: 40, bottom: 64 },
      legend: { top: 0, left: 0, right: 80, type: "scroll" },
      dataZoom: ZOOM,
      tooltip: {
        trigger: "item",
        formatter: (point: { name: string; value: [number, number, string] | number }) =>
          typeof point.value === "number"
            ? `${point.name} ${seconds(point.value)}`
            : `${seconds(point.value[1])}\n${point.value[2]}\nclick for its loops and code`,
      },
      xAxis: {
        name: over === ORDER ? "trial" : over,
        nameLocation: "middle",
        nameGap: 24,
        ...(over === ORDER
          ? { type: "value", max: Math.max(1, trials.length - 1) }
          : { type: "category", data: [...new Set(trials.map(valueOf))].map(String).sort(byNumber) }),
      },
      yAxis: {
        type: "log",
        min: low,
        max: high,
        ...steps(low, high, seconds),
      },
      series: [
        ...kernels.map((kernel, at) => ({
          type: "scatter",
          name: kernel,
          symbolSize: 6,
          itemStyle: { opacity: 0.75 },
          data: points.filter((_, index) => kernelOf(trials[index]!) === kernel),
          ...(at === 0 && {
            markLine: {
              symbol: "none",
              precision: DIGITS,
              lineStyle: { type: "dotted" },
              data: libraries.map((each) => ({
                yAxis: each.seconds,
                name: `${each.library} ${each.version}`,
                label: { formatter: each.library, position: "insideEndTop" },
              })),
            },
          }),
        })),
        {
          type: "scatter",
          name: "chosen",
          symbol: "diamond",
          symbolSize: 16,
          itemStyle: { color: "transparent", borderWidth: 2, borderColor: "#e03131" },
          data: points.filter((point) => point[3] === chosen),
        },
      ],
    };
  }, [trials, over, libraries, chosen]);
  const order = over === ORDER ? "in the order they were measured" : `by their ${over}`;
  return (
    <Chart
      option={option}
      height={360}
      label={`Times of ${trials.length} trials ${order}`}
      figures={() => figuresOf(trials)}
      onPick={({ data }) => Array.isArray(data) && onChoose(Number(data[3]))}
    />
  );
}

/** All trials, a column for each knob that any of them has. */
export function figuresOf(trials: Trial[]) {
  const knobs = [...new Set(trials.flatMap((trial) => Object.keys(trial.config)))];
  return {
    head: ["record", "seconds", "ranks by", "disturbed", "layouts", "numerics", ...knobs],
    rows: trials.map((trial) => [
      trial.record,
      trial.cost_s,
      trial.ranking_s,
      trial.disturbed,
      trial.layouts,
      trial.numerics,
      ...knobs.map((knob) => trial.config[knob]),
    ]),
  };
}

export function TwoKnobs({ trials, x, y }: { trials: Trial[]; x: string; y: string }) {
  const scheme = useComputedColorScheme();
  const option = useMemo(() => {
    const best = new Map<string, [string, string, number]>();
    for (const trial of [...trials].sort(byRank)) {
      const [across, up] = [x, y].map((knob) => String(trial.config[knob] ?? "–")) as [string, string];
      if (!best.has(`${across} ${up}`)) best.set(`${across} ${up}`, [across, up, trial.ranking_s!]);
    }
    const cells = [...best.values()];
    const logs = cells.map((cell) => Math.log(cell[2]));
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const { unit, times } = unitOf(Math.exp(low));
    const named = (position: 0 | 1) => [...new Set(cells.map((cell) => cell[position]))].sort(byNumber);
    const colours = ramp(scheme);
    const wide = named(0).length <= 12;
    return {
      grid: { left: 92, right: 16, top: 32, bottom: 96 },
      tooltip: {
        formatter: (cell: { value: [string, string, number, number] }) =>
          `${x}=${cell.value[0]}, ${y}=${cell.value[1]}\nbest ${seconds(cell.value[3])}`,
      },
      xAxis: { type: "category", name: x, nameLocation: "middle", nameGap: 28, data: named(0) },
      yAxis: { type: "category", name: y, nameLocation: "middle", nameGap: 72, data: named(1) },
      visualMap: {
        text: [seconds(Math.exp(high)), seconds(Math.exp(low))],
        min: low,
        max: high > low ? high : low + 1,
        dimension: 2,
        orient: "horizontal",
        left: "center",
        bottom: 0,
        formatter: (value: number) => seconds(Math.exp(value)),
        inRange: { color: colours },
      },
      title: { text: wide ? unit : "", left: 8, top: 0, textStyle: { fontSize: 12 } },
      series: [
        {
          type: "heatmap",
          data: cells.map(([across, up, cost]) => {
            const colour = between(colours, high > low ? (Math.log(cost) - low) / (high - low) : 0);
            return {
              value: [across, up, Math.log(cost), cost],
              label: { show: wide, color: readableOn(colour), formatter: digits(cost * times) },
            };
          }),
        },
      ],
    };
  }, [trials, x, y, scheme]);
  const best = seconds(Math.min(...trials.map((trial) => trial.ranking_s!)));
  return (
    <Chart
      option={option}
      height={360}
      label={`Best time for each value of ${x} and ${y}, the lowest ${best}`}
    />
  );
}

function unitOf(cost: number): { unit: string; times: number } {
  if (cost < 1e-3) return { unit: "µs", times: 1e6 };
  return cost < 1 ? { unit: "ms", times: 1e3 } : { unit: "s", times: 1 };
}

export function byNumber(one: string, other: string): number {
  return one.localeCompare(other, undefined, { numeric: true });
}
