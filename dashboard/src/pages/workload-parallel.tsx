/** All configs of one kernel as lines across its knobs, to the time they take. */
import { Text, useComputedColorScheme } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useMemo } from "react";

import { seconds } from "../format";
import { Chart } from "../parts/chart";
import { background, ramp } from "../parts/chart-colours";
import { steps } from "../parts/log-axis";
import type { Trial } from "./workload-best";
import { byRank } from "./workload-best";
import { byNumber, figuresOf, knobsOf } from "./workload-charts";

const MOST = 1500;
const BEST = "#e03131";

export function Parallel({ trials, kernel, ranked }: { trials: Trial[]; kernel: string; ranked: string[] }) {
  const scheme = useComputedColorScheme();
  const narrow = useMediaQuery("(max-width: 48em)");
  const shown = useMemo(() => {
    const byTime = [...trials].sort(byRank);
    return byTime.slice(0, MOST);
  }, [trials]);
  const option = useMemo(() => {
    // What matters most stands nearest to the time.
    const place = (knob: string) => (ranked.includes(knob) ? ranked.indexOf(knob) : ranked.length);
    const knobs = knobsOf(shown)
      .filter((knob) => knob !== "kernel")
      .sort((one, other) => place(other) - place(one))
      .slice(-(narrow ? 7 : 11));
    const costs = shown.map((trial) => trial.ranking_s!);
    const [low, high] = [Math.min(...costs), Math.max(...costs)];
    const valuesOf = (trial: Trial) => [
      ...knobs.map((knob) => String(trial.config[knob] ?? "–")),
      trial.ranking_s!,
      Math.log(trial.ranking_s!),
    ];
    const time = knobs.length;
    // The fastest are drawn last, on top.
    const rows = shown.map(valuesOf).reverse();
    return {
      parallel: {
        left: narrow ? 72 : 48,
        right: narrow ? 24 : 88,
        top: narrow ? 24 : 40,
        bottom: 76,
        layout: narrow ? "vertical" : "horizontal",
        parallelAxisDefault: {
          axisLabel: { backgroundColor: background(scheme), padding: [1, 2] },
          nameLocation: "start",
          nameGap: narrow ? 8 : 16,
        },
      },
      parallelAxis: [
        ...knobs.map((knob, dim) => ({
          dim,
          name: knob,
          type: "category",
          data: [...new Set(shown.map((trial) => String(trial.config[knob] ?? "–")))].sort(byNumber),
        })),
        {
          dim: time,
          name: "time",
          type: "log",
          // The fastest on top, where the eye begins.
          inverse: !narrow,
          nameLocation: narrow ? "start" : "end",
          min: low * 0.98,
          max: high * 1.02,
          ...steps(low * 0.98, high * 1.02, seconds),
        },
      ],
      visualMap: {
        dimension: time + 1,
        seriesIndex: 0,
        min: Math.log(low),
        max: high > low ? Math.log(high) : Math.log(low) + 1,
        orient: "horizontal",
        left: "center",
        bottom: 0,
        text: [seconds(high), seconds(low)],
        formatter: (value: number) => seconds(Math.exp(value)),
        inRange: { color: ramp(scheme) },
      },
      series: [
        { type: "parallel", name: "trials", lineStyle: { width: 1, opacity: 0.35 }, data: rows },
        {
          type: "parallel",
          name: "best",
          lineStyle: { width: 3, opacity: 1, color: BEST },
          data: rows.slice(-1),
        },
      ],
    };
  }, [shown, ranked, scheme, narrow]);
  return (
    <>
      <Text size="sm" c="dimmed">
        A line is a config of {kernel}; red is the fastest. Drag along an axis to keep only what crosses
        there.
        {shown.length < trials.length && ` The fastest ${MOST} are drawn.`}
      </Text>
      <Chart
        option={option}
        height={narrow ? 520 : 380}
        label={`${shown.length} configs of ${kernel} across their knobs, to the time they take`}
        figures={() => figuresOf(shown)}
      />
    </>
  );
}
