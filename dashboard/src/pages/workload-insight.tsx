/** Which knobs matter, and how well the machine model foresaw the times. */
import { Text, useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";

import type { components } from "../api/schema";
import { percent, seconds } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { steps } from "../parts/log-axis";
import { Empty } from "../parts/states";
import type { Trial } from "./workload-best";
import { kernelOf } from "./workload-charts";

export type Insight = components["schemas"]["Insight"];

/** A mean effect on the logarithm of the time, as a factor either way. */
const swing = (effect: number) => Math.exp(effect) - 1;

/** Those that change anything to speak of, and always the first few. */
const mattering = ({ knobs }: Insight) =>
  knobs.filter((each, at) => at < 3 || each.effect > 0.005).slice(0, 14);

export function Importance({ insight, onPick }: { insight: Insight; onPick: (knob: string) => void }) {
  const knobs = useMemo(() => mattering(insight).reverse(), [insight]);
  const option = useMemo(() => {
    return {
      grid: { left: 8, right: 64, top: 8, bottom: 32, containLabel: true },
      tooltip: {
        formatter: ({ name, value }: { name: string; value: number }) =>
          `${name}: ± ${percent(value)} of the time, on average\nclick to draw the trials over it`,
      },
      xAxis: { type: "value", axisLabel: { formatter: percent, hideOverlap: true } },
      yAxis: { type: "category", data: knobs.map((each) => each.knob) },
      series: [
        {
          type: "bar",
          name: "mean effect on the time",
          barMaxWidth: 18,
          label: {
            show: true,
            position: "right",
            formatter: ({ value }: { value: number }) => `± ${percent(value)}`,
          },
          data: knobs.map((each) => swing(each.effect)),
        },
      ],
    };
  }, [knobs]);
  if (insight.knobs.length === 0)
    return <Empty title="Too little to learn from">It needs about 20 trials that ran and differ.</Empty>;
  const words = insight.knobs.map((each) => `${each.knob} ${percent(swing(each.effect))}`).join(", ");
  return (
    <>
      <Text size="sm" c="dimmed">
        By how much a knob changes the time, on average. Learned from {insight.trials} trials; of trials that
        were kept back, the knobs explain {percent(insight.explained)} of the differences
        {insight.explained !== null && insight.explained < 0.5 && ": too little to rely on"}.
      </Text>
      <Chart
        option={option}
        height={Math.max(140, 48 + 24 * knobs.length)}
        label={`How much each knob changes the time: ${words}`}
        onPick={({ dataIndex }) => onPick(knobs[dataIndex]!.knob)}
      />
    </>
  );
}

export function PredictedMeasured({
  insight,
  trials,
  onChoose,
}: {
  insight: Insight;
  trials: Trial[];
  onChoose: (record: number) => void;
}) {
  const scheme = useComputedColorScheme();
  const pairs = useMemo(() => {
    const predicted = new Map(insight.predicted.map((each) => [each.record, each.predicted_s]));
    return trials.flatMap((trial) => {
      const expected = predicted.get(trial.record);
      return expected === undefined ? [] : [{ trial, expected }];
    });
  }, [insight.predicted, trials]);
  const option = useMemo(() => {
    const all = pairs.flatMap(({ trial, expected }) => [trial.cost_s!, expected]);
    const range = { min: Math.min(...all) * 0.9, max: Math.max(...all) * 1.1 };
    const axis = {
      type: "log",
      ...range,
      nameLocation: "middle",
      ...steps(range.min, range.max, seconds),
    };
    const kernels = [...new Set(pairs.map(({ trial }) => kernelOf(trial)))];
    return {
      grid: { left: 84, right: 24, top: 40, bottom: 44 },
      legend: { top: 0, left: 0, right: 80, type: "scroll" },
      tooltip: {
        trigger: "item",
        formatter: ({ value }: { value: number[] }) =>
          `${seconds(value[0])} measured, ${seconds(value[1])} predicted`,
      },
      xAxis: { ...axis, name: "measured", nameGap: 26 },
      yAxis: { ...axis, name: "predicted", nameGap: 66 },
      series: [
        ...kernels.map((kernel) => ({
          type: "scatter",
          name: kernel,
          symbolSize: 5,
          itemStyle: { opacity: 0.7 },
          data: pairs
            .filter(({ trial }) => kernelOf(trial) === kernel)
            .map(({ trial, expected }) => [trial.cost_s, expected, trial.record]),
        })),
        {
          type: "line",
          name: "as predicted",
          symbol: "none",
          silent: true,
          color: lines(scheme)[7],
          lineStyle: { type: "dashed", width: 1 },
          data: [
            [range.min, range.min],
            [range.max, range.max],
          ],
        },
      ],
    };
  }, [pairs, scheme]);
  if (pairs.length < 2)
    return <Empty title="Nothing to hold against each other">No kernel of today made these configs.</Empty>;
  const agreement = rankCorrelation(pairs.map(({ trial, expected }) => [trial.cost_s!, expected]));
  return (
    <>
      <Text size="sm" c="dimmed">
        What the machine model says before anything runs. The two agree in order by {agreement.toFixed(2)},
        where 1 is all and 0 is chance.
      </Text>
      <Chart
        option={option}
        height={340}
        label={`Predicted over measured time of ${pairs.length} trials, rank correlation ${agreement.toFixed(2)}`}
        onPick={({ data }) => Array.isArray(data) && data.length === 3 && onChoose(Number(data[2]))}
      />
    </>
  );
}

/** Spearman's: the correlation of the two orders. */
export function rankCorrelation(pairs: [number, number][]): number {
  const [first, second] = [0, 1].map((side) => ranks(pairs.map((pair) => pair[side]!))) as [
    number[],
    number[],
  ];
  const mean = (pairs.length - 1) / 2;
  let [both, one, other] = [0, 0, 0];
  for (let at = 0; at < pairs.length; at += 1) {
    const [left, right] = [first[at]! - mean, second[at]! - mean];
    both += left * right;
    one += left * left;
    other += right * right;
  }
  return one && other ? both / Math.sqrt(one * other) : 0;
}

/** Places from 0; equals share the mean of theirs. */
function ranks(values: number[]): number[] {
  const order = values.map((_, at) => at).sort((one, other) => values[one]! - values[other]!);
  const found = new Array<number>(values.length);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to + 1 < order.length && values[order[to + 1]!] === values[order[from]!]) to += 1;
    for (let at = from; at <= to; at += 1) found[order[at]!] = (from + to) / 2;
    from = to + 1;
  }
  return found;
}
