/** The trials of a workload over time, over one knob, and over two at once. */
import { useMemo } from "react";

import type { components } from "../api/schema";
import { config, seconds } from "../format";
import { Chart, DIGITS } from "../parts/chart";

export type Trial = components["schemas"]["TrialPoint"];
type Baseline = components["schemas"]["Baseline"];

/** Stands among the knobs for the order of measurement. */
export const ORDER = "time";

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

export function OneKnob({
  trials,
  over,
  libraries,
}: {
  trials: Trial[];
  over: string;
  libraries: Baseline[];
}) {
  const option = useMemo(() => {
    const kernels = [...new Set(trials.map((trial) => String(trial.config["kernel"])))];
    const valueOf = (trial: Trial, index: number) =>
      over === ORDER ? index : String(trial.config[over] ?? "–");
    const costs = [...trials.map((trial) => trial.cost_s!), ...libraries.map((each) => each.seconds)];
    return {
      grid: { left: 64, right: 16, top: 36, bottom: 40 },
      legend: { top: 0 },
      tooltip: {
        trigger: "item",
        formatter: (point: { name: string; value: [number, number, string] | number }) =>
          typeof point.value === "number"
            ? `${point.name} ${seconds(point.value)}`
            : `${seconds(point.value[1])}\n${point.value[2]}`,
      },
      xAxis: {
        name: over === ORDER ? "trial" : over,
        nameLocation: "middle",
        nameGap: 24,
        ...(over === ORDER
          ? { type: "value" }
          : { type: "category", data: [...new Set(trials.map(valueOf))].map(String).sort(byNumber) }),
      },
      yAxis: {
        type: "log",
        min: Math.min(...costs) * 0.95,
        max: Math.max(...costs) * 1.05,
        axisLabel: { formatter: (value: number) => seconds(value) },
      },
      series: kernels.map((kernel, at) => ({
        type: "scatter",
        name: kernel,
        symbolSize: 6,
        data: trials
          .map((trial, index) => [
            valueOf(trial, index),
            trial.cost_s,
            config(trial.config),
            trial.config["kernel"],
          ])
          .filter((point) => point[3] === kernel),
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
    };
  }, [trials, over, libraries]);
  const order = over === ORDER ? "in the order they were measured" : `by their ${over}`;
  return <Chart option={option} label={`Times of ${trials.length} trials ${order}`} />;
}

export function TwoKnobs({ trials, x, y }: { trials: Trial[]; x: string; y: string }) {
  const option = useMemo(() => {
    const best = new Map<string, [string, string, number]>();
    for (const trial of trials) {
      const [across, up] = [x, y].map((knob) => String(trial.config[knob] ?? "–")) as [string, string];
      const known = best.get(`${across} ${up}`);
      if (known === undefined || trial.cost_s! < known[2])
        best.set(`${across} ${up}`, [across, up, trial.cost_s!]);
    }
    const cells = [...best.values()];
    const costs = cells.map((cell) => cell[2]);
    const named = (position: 0 | 1) => [...new Set(cells.map((cell) => cell[position]))].sort(byNumber);
    return {
      grid: { left: 84, right: 16, top: 16, bottom: 84 },
      tooltip: { formatter: (cell: { value: [string, string, number] }) => seconds(cell.value[2]) },
      xAxis: { type: "category", name: x, nameLocation: "middle", nameGap: 28, data: named(0) },
      yAxis: { type: "category", name: y, nameLocation: "middle", nameGap: 64, data: named(1) },
      visualMap: {
        text: [seconds(Math.max(...costs)), seconds(Math.min(...costs))],
        min: Math.min(...costs),
        max: Math.max(...costs),
        orient: "horizontal",
        left: "center",
        bottom: 0,
        formatter: (value: number) => seconds(value),
        inRange: { color: ["#0b7285", "#66d9e8", "#ffe8cc", "#e8590c"] },
      },
      series: [{ type: "heatmap", data: cells }],
    };
  }, [trials, x, y]);
  return <Chart option={option} label={`Best time for each value of ${x} and ${y}`} />;
}

function byNumber(one: string, other: string): number {
  return one.localeCompare(other, undefined, { numeric: true });
}
