/** How a job gets faster: the whole model, and the best of each task beside what it was before. */
import { Text } from "@mantine/core";
import { useMemo, useState } from "react";

import type { Job, Task } from "../api/client";
import { useProgress } from "../api/queries";
import { milliseconds, seconds } from "../format";
import { Chart, DIGITS } from "../parts/chart";
import { Choice, Section } from "../parts/section";
import { Empty } from "../parts/states";

const PALETTE = ["#0c8599", "#e8590c", "#7048e8", "#2f9e44", "#e64980", "#1971c2", "#f08c00", "#868e96"];

export function WholeModel({ job }: { job: Job }) {
  const progress = useProgress(job.id);
  const option = useMemo(
    () => ({
      grid: { left: 64, right: 16, top: 32, bottom: 40 },
      tooltip: { trigger: "axis" },
      xAxis: {
        type: "value",
        name: "trial",
        nameLocation: "middle",
        nameGap: 24,
        min: "dataMin",
        max: "dataMax",
      },
      yAxis: {
        type: "value",
        scale: true,
        // A line beside the curve does not move the axis by itself.
        ...(job.recommended_ms !== null && {
          max: ({ max }: { max: number }) => Math.max(max, job.recommended_ms! * 1.02),
        }),
        axisLabel: { formatter: milliseconds, showMaxLabel: false },
      },
      series: [
        {
          type: "line",
          step: "end",
          showSymbol: false,
          name: "whole model, ms",
          color: PALETTE[0],
          data: [
            ...(progress.data?.points.map(({ trial, estimated_ms }) => [trial, estimated_ms]) ?? []),
            // It ends at the figure that stands above it: the two are asked for one after the other.
            ...(job.estimated_ms === null ? [] : [[job.trials, job.estimated_ms]]),
          ],
          ...(job.recommended_ms !== null && {
            markLine: {
              symbol: "none",
              precision: DIGITS,
              label: { formatter: "before tuning", position: "insideEndTop" },
              data: [{ yAxis: job.recommended_ms }],
            },
          }),
        },
      ],
    }),
    [progress.data, job.recommended_ms, job.estimated_ms, job.trials],
  );
  return (
    <Section title="Whole model, estimated">
      {progress.data?.points.length ? (
        <Chart
          option={option}
          label={`Estimated time of the whole model over trials, now ${milliseconds(job.estimated_ms)}`}
        />
      ) : (
        <Empty title="No estimate yet">It needs one measurement of every task.</Empty>
      )}
    </Section>
  );
}

const ALL = "all";

export function Curves({ job, tasks }: { job: Job; tasks: Task[] }) {
  const [chosen, choose] = useState(ALL);
  const shown = useMemo(
    () => tasks.filter((task) => chosen === ALL || String(task.id) === chosen),
    [tasks, chosen],
  );
  const option = useMemo(() => curvesOf(tasks, shown), [tasks, shown]);
  const libraries = [...new Set(shown.flatMap((task) => task.baselines.map(nameOf)))];
  return (
    <Section
      title="Best of each task"
      beside={
        <Choice
          w={280}
          ml="auto"
          aria-label="Task that is drawn"
          searchable
          data={[
            { value: ALL, label: "all tasks" },
            ...tasks.map((task) => ({ value: String(task.id), label: task.text })),
          ]}
          value={chosen}
          onChange={(value) => choose(value ?? ALL)}
        />
      }
    >
      <Chart
        option={option}
        label={`Best time so far of ${shown.length} tasks of job ${job.id} over their trials; dashed: untuned${
          libraries.length ? `; dotted: ${libraries.join(", ")}` : ""
        }`}
      />
      <Text size="sm" c="dimmed">
        Dashed: untuned, by the analysis alone.{" "}
        {libraries.length
          ? `Dotted: ${libraries.join(", ")} on the same machine, ${job.threads} thread${job.threads > 1 ? "s" : ""}.`
          : `No library was timed on these; tilefleet baselines ${job.id} does that for the host.`}
      </Text>
    </Section>
  );
}

function nameOf(baseline: { library: string; version: string }): string {
  return `${baseline.library} ${baseline.version}`;
}

/** Each task in a colour that stays its own whatever is shown; names at the lines of a single one. */
function curvesOf(tasks: Task[], shown: Task[]) {
  const single = shown.length === 1;
  const line = (name: string, value: number, type: string) => ({
    yAxis: value,
    name,
    lineStyle: { type, width: single ? 2 : 1, opacity: single ? 1 : 0.6 },
    label: { show: single, formatter: `${name} ${seconds(value)}`, position: "insideEndTop" },
  });
  const drawn = shown.filter((task) => task.curve.length > 0);
  const values = drawn.flatMap((task) => [
    ...task.curve.map((point) => point[1]!),
    ...(task.recommended_s ? [task.recommended_s] : []),
    ...task.baselines.map((each) => each.seconds),
  ]);
  return {
    grid: { left: 64, right: 16, top: 16, bottom: 40 },
    tooltip: {
      trigger: "item",
      formatter: (point: { seriesName: string; name: string; value: [number, number] | number }) =>
        typeof point.value === "number"
          ? `${point.seriesName}\n${point.name} ${seconds(point.value)}`
          : `${point.seriesName}\n${seconds(point.value[1])} at trial ${point.value[0] - 1}`,
    },
    xAxis: { type: "log", name: "trial of the task", nameLocation: "middle", nameGap: 24, min: 1 },
    yAxis: {
      type: "log",
      min: Math.min(...values) * 0.9,
      max: Math.max(...values) * 1.1,
      axisLabel: { formatter: (value: number) => seconds(value) },
    },
    series: drawn.map((task) => ({
      type: "line",
      step: "end",
      symbolSize: 3,
      name: task.text,
      color: PALETTE[tasks.indexOf(task) % PALETTE.length],
      // A logarithm has no place for trial 0.
      data: task.curve.map(([trial, best]) => [trial! + 1, best]),
      markLine: {
        symbol: "none",
        precision: DIGITS,
        data: [
          ...(task.recommended_s ? [line("untuned", task.recommended_s, "dashed")] : []),
          ...task.baselines.map((each) => line(nameOf(each), each.seconds, "dotted")),
        ],
      },
    })),
  };
}
