/** Jobs layer by layer: times beside each other, whether the difference is more than noise, and which knobs differ. */
import { Button, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";

import type { Task } from "../api/client";
import { percent, seconds } from "../format";
import { Seconds } from "../parts/clock";
import { Section } from "../parts/section";
import { SortHead } from "../parts/sortable";
import { Empty } from "../parts/states";
import type { Column } from "../parts/table";
import { DataTable, WorkloadLink } from "../parts/table";
import type { Compared } from "./compare";
import { said } from "./compare";
import { Dot } from "./job-charts";
import { counts } from "./job-layers";

/** Below this a difference is none, whatever the scatter of the few repeats says. */
const LEAST = 0.02;
const FEW = 100;

export type Row = {
  key: string;
  text: string;
  /** By job; undefined where it has no such layer. */
  tasks: (Task | undefined)[];
  /** The first's time over each one's: above 1 it is faster. */
  ratios: (number | null)[];
  noises: number[];
  /** What the largest difference means for the whole model, in seconds: below 0 it got slower. */
  saved: number;
};

export function rowsOf(jobs: { tasks: Task[] }[]): Row[] {
  const keys = [...new Set(jobs.flatMap(({ tasks }) => tasks.map((task) => task.workload_key)))];
  const byKey = jobs.map(({ tasks }) => new Map(tasks.map((task) => [task.workload_key, task])));
  return keys.map((key) => {
    const tasks = byKey.map((all) => all.get(key));
    const [first, ...others] = tasks;
    const ratio = (task: Task | undefined) =>
      first?.best_s && task?.best_s ? first.best_s / task.best_s : null;
    const spread = (task: Task | undefined) => (task?.best_spread ?? 0) / 2;
    const differences = others.map((task) =>
      first?.best_s && task?.best_s ? task.weight * (first.best_s - task.best_s) : 0,
    );
    return {
      key,
      text: tasks.find((task) => task)!.text,
      tasks,
      ratios: tasks.map(ratio),
      noises: tasks.map((task) => Math.max(LEAST, spread(first) + spread(task))),
      saved: differences.reduce((most, each) => (Math.abs(each) > Math.abs(most) ? each : most), 0),
    };
  });
}

type Show = "all" | "slower" | "faster" | "configs";

export function CompareLayers({ jobs }: { jobs: Compared[] }) {
  const rows = useMemo(() => rowsOf(jobs), [jobs]);
  const [show, setShow] = useState<Show>("all");
  const [whole, setWhole] = useState(false);
  const [sort, setSort] = useState({ head: "Difference", down: true });
  const layers = rows.filter(({ tasks }) => tasks.some((task) => task && counts(task)));
  const common = layers.filter(({ tasks }) => tasks.every(Boolean));
  const slower = (row: Row) => row.ratios.some((ratio, at) => ratio !== null && ratio < 1 - row.noises[at]!);
  const faster = (row: Row) => row.ratios.some((ratio, at) => ratio !== null && ratio > 1 + row.noises[at]!);
  const tests: Record<Show, (row: Row) => boolean> = {
    all: () => true,
    slower,
    faster,
    configs: (row) => row.tasks.some((task) => differencesOf(row.tasks[0], task).length > 0),
  };
  const key = (row: Row): number | string => {
    if (sort.head === "Workload") return row.text;
    const at = jobs.findIndex(({ head }) => sort.head === head);
    return at < 0 ? Math.abs(row.saved) : (row.tasks[at]?.best_s ?? -1);
  };
  const shown = rows.filter(tests[show]).sort((one, other) => {
    const order = key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0;
    return sort.down ? -order : order;
  });
  const columns: Column<Row>[] = [
    {
      head: "Workload",
      cell: ({ key: workload, text, tasks }) => (
        <WorkloadLink
          workload={workload}
          text={`${tasks.find(Boolean)!.weight > 1 ? `${tasks.find(Boolean)!.weight} x ` : ""}${text}`}
          at={jobs[tasks.findIndex(Boolean)]!.job}
        />
      ),
    },
    ...jobs.map(({ head }, at) => ({
      head,
      cell: (row: Row) => <Time row={row} at={at} />,
    })),
    {
      head: "Difference",
      cell: ({ saved }) =>
        saved === 0 ? "–" : `${seconds(Math.abs(saved))} ${saved > 0 ? "saved" : "lost"}`,
    },
    { head: "Knobs that differ", cell: (row) => <Knobs row={row} jobs={jobs} /> },
  ];
  return (
    <Section
      title="Layer by layer"
      beside={
        <SegmentedControl
          size="xs"
          ml="auto"
          aria-label="Which layers"
          data={[
            { value: "all", label: `all ${rows.length}` },
            { value: "slower", label: `slower ${rows.filter(slower).length}` },
            { value: "faster", label: `faster ${rows.filter(faster).length}` },
            { value: "configs", label: "other knobs" },
          ]}
          value={show}
          onChange={(value) => setShow(value as Show)}
        />
      }
    >
      <Text size="sm">
        {common.length === 0
          ? "They have no layer in common."
          : `${common.length} of ${layers.length} layers are in all of them. `}
        {common.length > 0 && <Sum rows={common} jobs={jobs} />}
      </Text>
      {shown.length === 0 ? (
        <Empty title="None">No layer is like that.</Empty>
      ) : (
        <DataTable
          label="Layer by layer"
          minWidth={480 + 150 * jobs.length}
          rows={whole ? shown : shown.slice(0, FEW)}
          keyOf={({ key: workload }) => workload}
          columns={columns}
          headOf={({ head }) => (
            <SortHead
              key={head}
              head={head}
              down={sort.head === head ? sort.down : null}
              onSort={() => setSort({ head, down: sort.head === head ? !sort.down : true })}
              miw={head === "Workload" ? 240 : undefined}
            />
          )}
        />
      )}
      {!whole && shown.length > FEW && (
        <Button variant="default" size="compact-sm" mt="xs" onClick={() => setWhole(true)}>
          Show all {shown.length} layers
        </Button>
      )}
      <Text size="sm" c="dimmed" mt={4}>
        Ratios are against the first. What is within the scatter of both, or {percent(LEAST)}, is called the
        same. A difference counts as often as its layer occurs.
      </Text>
    </Section>
  );
}

/** The layers that all have, by each. */
function Sum({ rows, jobs }: { rows: Row[]; jobs: Compared[] }) {
  const sums = jobs.map((_, at) =>
    rows.reduce((sum, { tasks }) => sum + tasks[at]!.weight * (tasks[at]!.best_s ?? NaN), 0),
  );
  if (sums.some(Number.isNaN)) return "Some of them have no time.";
  const parts = jobs.map(({ title, job, build }, at) =>
    at === 0
      ? `${seconds(sums[0])} in ${build ? title : `job ${job.id}`}`
      : `${seconds(sums[at])} in ${build ? title : `job ${job.id}`}, ${said(sums[0]! / sums[at]!, 0.01)}`,
  );
  return `These take ${parts.join("; ")}.`;
}

function Time({ row, at }: { row: Row; at: number }) {
  const task = row.tasks[at];
  if (!task) return "no such layer";
  const [ratio, noise] = [row.ratios[at]!, row.noises[at]!];
  const same = ratio === null || Math.abs(ratio - 1) <= noise;
  return (
    <Stack gap={0} style={{ whiteSpace: "nowrap" }}>
      <Text size="sm">
        <Seconds value={task.best_s} disturbed={task.best_disturbed} />
        {task.best_spread !== null && (
          <Text span size="xs" c="dimmed">
            {" "}
            ±&nbsp;{percent(task.best_spread / 2)}
          </Text>
        )}
      </Text>
      {at > 0 && ratio !== null && (
        <Text
          size="xs"
          fw={same ? 400 : 700}
          {...(same ? { c: "dimmed" } : ratio < 1 ? { c: "var(--failed)" } : {})}
        >
          {same
            ? "the same"
            : ratio > 1
              ? `▲ ${ratio.toFixed(2)} x as fast`
              : `▼ ${(1 / ratio).toFixed(2)} x the time`}
        </Text>
      )}
    </Stack>
  );
}

/** Names of the knobs that two tasks' best configs have different values of; the kernel is one. */
function differencesOf(one: Task | undefined, other: Task | undefined): string[] {
  const [first, second] = [one?.best_config, other?.best_config];
  if (!first || !second) return [];
  return [...new Set([...Object.keys(first), ...Object.keys(second)])].filter(
    (knob) => first[knob] !== second[knob],
  );
}

function Knobs({ row, jobs }: { row: Row; jobs: Compared[] }) {
  const knobs = [...new Set(row.tasks.flatMap((task) => differencesOf(row.tasks[0], task)))];
  const versions = new Set(
    row.tasks.map((task) => task?.best_kernel_version ?? null).filter((each) => each !== null),
  );
  if (knobs.length === 0)
    return versions.size > 1 ? <Text size="sm">the same, of another kernel version</Text> : "none";
  const other = knobs.includes("kernel");
  // Knobs of different kernels have nothing in common.
  const named = other ? ["kernel"] : knobs;
  return (
    <Stack gap={0}>
      {jobs.map(({ job, colour }, at) => (
        <Group key={job.id} gap={6} wrap="nowrap">
          <Dot colour={colour} />
          <Text size="xs" ff="monospace">
            {row.tasks[at]?.best_config
              ? named
                  .map((knob) =>
                    other
                      ? row.tasks[at]!.best_config![knob]
                      : `${knob}=${row.tasks[at]!.best_config![knob] ?? "–"}`,
                  )
                  .join(" ")
              : "–"}
          </Text>
        </Group>
      ))}
    </Stack>
  );
}
