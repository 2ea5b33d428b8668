/** How a job gets faster: the whole model with what each gain came from, and the best of each task. */
import { Button, Group, Text, useComputedColorScheme } from "@mantine/core";
import type { ReactNode } from "react";
import { useMemo, useState } from "react";

import type { Job, Point, Task } from "../api/client";
import { isOver } from "../api/live";
import { useProgress } from "../api/queries";
import { milliseconds, percent, seconds } from "../format";
import { Chart, DIGITS, ZOOM } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { steps } from "../parts/log-axis";
import { Choice, Section } from "../parts/section";
import { Empty } from "../parts/states";

/** The task that is looked at, in charts, graph and table at once. */
export type Chosen = { task: number | null; choose: (task: number | null) => void };

const NAMED = 5;

type Gain = { task: Task; ms: number; share: number };

/** Which tasks the gain over their first trials came from, the largest first. */
export function gainsOf(tasks: Task[]): Gain[] {
  const gains = tasks.map((task) => ({
    task,
    ms: 1e3 * task.weight * Math.max(0, (task.recommended_s ?? 0) - (task.best_s ?? task.recommended_s ?? 0)),
  }));
  const sum = gains.reduce((total, { ms }) => total + ms, 0);
  return gains
    .filter(({ ms }) => ms > 0)
    .sort((one, other) => other.ms - one.ms)
    .map((gain) => ({ ...gain, share: gain.ms / sum }));
}

export function WholeModel({ job, tasks, chosen }: { job: Job; tasks: Task[]; chosen: Chosen }) {
  const progress = useProgress(job.id);
  const scheme = useComputedColorScheme();
  const gains = useMemo(() => gainsOf(tasks).slice(0, NAMED), [tasks]);
  const option = useMemo(
    () => wholeOf(job, tasks, gains, progress.data?.points ?? [], chosen.task, lines(scheme)),
    [progress.data, job, tasks, gains, chosen.task, scheme],
  );
  return (
    <Section title="Whole model, estimated">
      {progress.data?.points.length ? (
        <>
          <Chart
            option={option}
            label={`Estimated time of the whole model over trials, now ${milliseconds(job.estimated_ms)}`}
            figures={() => ({
              head: ["trial", "estimated_ms", "gain_ms", "layer"],
              rows: progress.data.points.map((point) => [
                point.trial,
                point.estimated_ms,
                point.gain_ms,
                tasks.find(({ id }) => id === point.task)?.text ?? null,
              ]),
            })}
          />
          {gains.length > 0 && (
            <Group gap={6} role="group" aria-label="Where the gain came from">
              <Text size="sm">The gain came from</Text>
              {gains.map(({ task, ms, share }, at) => (
                <TaskButton key={task.id} task={task} colour={lines(scheme)[at + 1]!} chosen={chosen}>
                  : {milliseconds(ms)}, {percent(share)}
                </TaskButton>
              ))}
            </Group>
          )}
        </>
      ) : (
        <Empty title={isOver(job) ? "No estimate" : "No estimate yet"}>
          {isOver(job)
            ? "The job was over before every task had a config that ran."
            : "It needs one measurement of every task."}
        </Empty>
      )}
    </Section>
  );
}

/** What a colour of a chart stands for; pressed, the task is the one that is looked at. */
function TaskButton({
  task,
  colour,
  chosen,
  children,
}: {
  task: Task;
  colour: string;
  chosen: Chosen;
  children?: ReactNode;
}) {
  const pressed = chosen.task === task.id;
  return (
    <Button
      size="compact-xs"
      maw="100%"
      h="auto"
      mih={22}
      styles={{ label: { whiteSpace: "normal", textAlign: "start" } }}
      variant={pressed ? "filled" : "default"}
      aria-pressed={pressed}
      leftSection={<Dot colour={colour} />}
      onClick={() => chosen.choose(pressed ? null : task.id)}
    >
      {task.text}
      {children}
    </Button>
  );
}

const colourOf = (palette: string[], at: number) => palette[at % palette.length]!;

export function Dot({ colour }: { colour: string }) {
  return (
    <svg width={10} height={10} aria-hidden="true">
      <circle cx={5} cy={5} r={4.5} fill={colour} />
    </svg>
  );
}

function wholeOf(
  job: Job,
  tasks: Task[],
  gains: Gain[],
  points: Point[],
  chosen: number | null,
  palette: string[],
) {
  const untuned = job.verdict?.untuned_ms;
  const texts = new Map(tasks.map((task) => [task.id, task.text]));
  const colours = new Map(gains.map(({ task }, at) => [task.id, palette[at + 1]!]));
  const falls = points.filter((point) => point.task !== null);
  const byTrial = new Map(falls.map((point) => [point.trial, point]));
  return {
    grid: { left: 64, right: 16, top: 32, bottom: 68 },
    dataZoom: ZOOM,
    tooltip: {
      trigger: "axis",
      formatter: (found: { value: [number, number] }[]) => {
        const [trial, ms] = found[0]!.value;
        const fall = byTrial.get(trial);
        const came = fall
          ? `\n${milliseconds(fall.gain_ms)} less by ${texts.get(fall.task!) ?? "a layer"}`
          : "";
        return `${milliseconds(ms)} at trial ${trial}${came}`;
      },
    },
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
      ...(untuned && { max: ({ max }: { max: number }) => Math.max(max, untuned * 1.02) }),
      axisLabel: { formatter: milliseconds, showMaxLabel: false },
    },
    series: [
      {
        type: "line",
        step: "end",
        showSymbol: false,
        name: "whole model, ms",
        color: palette[0],
        data: [
          ...points.map(({ trial, estimated_ms }) => [trial, estimated_ms]),
          // It ends at the figure that stands above it: the two are asked for one after the other.
          ...(job.estimated_ms === null ? [] : [[job.trials, job.estimated_ms]]),
        ],
        ...(untuned && {
          markLine: {
            symbol: "none",
            precision: DIGITS,
            label: { formatter: "untuned", position: "insideEndTop" },
            data: [{ yAxis: untuned }],
          },
        }),
      },
      {
        type: "scatter",
        name: "gain",
        data: falls.map((point) => ({
          value: [point.trial, point.estimated_ms],
          symbolSize: point.task === chosen ? 13 : 7,
          itemStyle: {
            color: colours.get(point.task!) ?? palette[7],
            opacity: chosen === null || point.task === chosen ? 1 : 0.25,
          },
        })),
      },
    ],
  };
}

const HEAVIEST = "heaviest";
const FEW = 8;

export function Curves({ job, tasks, chosen }: { job: Job; tasks: Task[]; chosen: Chosen }) {
  const [drawn, draw] = useState(HEAVIEST);
  const scheme = useComputedColorScheme();
  // More lines than colours cannot be told apart.
  const shown = useMemo(() => {
    if (drawn !== HEAVIEST) return tasks.filter((task) => String(task.id) === drawn);
    const heavy = [...tasks].sort((one, other) => timeOf(other) - timeOf(one)).slice(0, FEW);
    return tasks.filter((task) => heavy.includes(task) || task.id === chosen.task);
  }, [tasks, drawn, chosen.task]);
  const option = useMemo(() => curvesOf(shown, chosen.task, lines(scheme)), [shown, chosen.task, scheme]);
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
            { value: HEAVIEST, label: tasks.length > FEW ? `the ${FEW} heaviest tasks` : "all tasks" },
            ...tasks.map((task) => ({ value: String(task.id), label: task.text })),
          ]}
          value={drawn}
          onChange={(value) => draw(value ?? HEAVIEST)}
        />
      }
    >
      {shown.every(({ curve }) => curve.length === 0) ? (
        <Empty title={isOver(job) ? "None of these was measured" : "None of these was measured yet"}>
          Each trial that runs is a point.
        </Empty>
      ) : (
        <>
          <Chart
            option={option}
            label={`Best time so far of ${shown.length} tasks of job ${job.id} over their trials; dashed: the untuned config${
              libraries.length ? `; dotted: ${libraries.join(", ")}` : ""
            }`}
            onPick={({ seriesIndex }) => chosen.choose(shown[seriesIndex]?.id ?? null)}
          />
          {shown.length > 1 && (
            <Group gap={6} role="group" aria-label="Tasks by their colours">
              {shown.map((task, at) => (
                <TaskButton key={task.id} task={task} colour={colourOf(lines(scheme), at)} chosen={chosen} />
              ))}
            </Group>
          )}
        </>
      )}
      <Text size="sm" c="dimmed">
        Dashed: the untuned config.{" "}
        {libraries.length
          ? `Dotted: ${libraries.join(", ")} on the same machine, ${job.threads} thread${job.threads > 1 ? "s" : ""}.`
          : `No library was timed on these; tilefleet baselines ${job.id} does that for the host.`}
      </Text>
    </Section>
  );
}

/** What has no time has no curve either; a chain counts for nothing. */
const timeOf = ({ weight, best_s }: Task) => weight * (best_s ?? 0);

function nameOf(baseline: { library: string; version: string }): string {
  return `${baseline.library} ${baseline.version}`;
}

/** Names stand at the lines of a single one; beside a chosen one the others are faint. */
function curvesOf(shown: Task[], chosen: number | null, palette: string[]) {
  const single = shown.length === 1;
  const line = (name: string, value: number, type: string, opacity: number) => ({
    yAxis: value,
    name,
    lineStyle: { type, width: single ? 2 : 1, opacity: single ? 1 : 0.6 * opacity },
    label: { show: single, formatter: `${name} ${seconds(value)}`, position: "insideEndTop" },
  });
  const drawn = shown.filter((task) => task.curve.length > 0);
  const values = drawn.flatMap((task) => [
    ...task.curve.map((point) => point[1]!),
    ...(task.recommended_s ? [task.recommended_s] : []),
    ...task.baselines.map((each) => each.seconds),
  ]);
  const [low, high] = [Math.min(...values) * 0.9, Math.max(...values) * 1.1];
  const most = Math.max(...drawn.flatMap((task) => task.curve.map((point) => point[0]! + 1)));
  return {
    grid: { left: 64, right: 16, top: 16, bottom: 40 },
    tooltip: {
      trigger: "item",
      formatter: (point: { seriesName: string; name: string; value: [number, number] | number }) =>
        typeof point.value === "number"
          ? `${point.seriesName}\n${point.name} ${seconds(point.value)}`
          : `${point.seriesName}\n${seconds(point.value[1])} at trial ${point.value[0] - 1}`,
    },
    xAxis: {
      type: "log",
      name: "trial of the task",
      nameLocation: "middle",
      nameGap: 24,
      min: 1,
      max: Math.max(2, most),
      ...steps(1, most, (value) => (Number.isInteger(value) ? String(value) : "")),
    },
    yAxis: { type: "log", min: low, max: high, ...steps(low, high, seconds) },
    series: shown.map((task, at) => {
      const opacity = chosen === null || single || task.id === chosen ? 1 : 0.2;
      return {
        type: "line",
        step: "end",
        symbolSize: task.id === chosen ? 6 : 3,
        name: task.text,
        color: colourOf(palette, at),
        z: task.id === chosen ? 5 : 2,
        lineStyle: { width: task.id === chosen ? 4 : 2, opacity },
        itemStyle: { opacity },
        // A logarithm has no place for trial 0.
        data: task.curve.map(([trial, best]) => [trial! + 1, best]),
        markLine: {
          symbol: "none",
          precision: DIGITS,
          data: [
            ...(task.recommended_s ? [line("untuned", task.recommended_s, "dashed", opacity)] : []),
            ...task.baselines.map((each) => line(nameOf(each), each.seconds, "dotted", opacity)),
          ],
        },
      };
    }),
  };
}
