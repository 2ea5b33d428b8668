/** The layers of a job as a table: where the time goes, what was gained, sorted by any column. */
import { ActionIcon, Box, Button, Group, Progress, Table, Text } from "@mantine/core";
import { useState } from "react";

import type { Job, Task } from "../api/client";
import { isOver } from "../api/live";
import { percent, rate, seconds } from "../format";
import { StateBadge } from "../parts/badges";
import { Seconds } from "../parts/clock";
import { Section } from "../parts/section";
import { SortHead } from "../parts/sortable";
import type { Column } from "../parts/table";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";
import { promiseOf } from "./job-budget";
import type { Chosen } from "./job-charts";

export type Layer = Task & { taken: number | null; part: number | null; gain: number | null };
type Sortable = Column<Layer> & { of?: (layer: Layer) => number | string | null | undefined };

const LIBRARY = "Library";
const PEAK = "Of peak";
const PART = "Share of time";

const BOUND = "Of roofline";
/** A browser shows that many rows at once without a pause; the heaviest are among them. */
const FEW = 100;

const COLUMNS = (job: Job, chosen: Chosen, most: number): Sortable[] => [
  {
    head: "Workload",
    of: (layer) => layer.text,
    cell: (layer) => (
      <Group gap={6} wrap="nowrap">
        <ActionIcon
          size="xs"
          variant={layer.id === chosen.task ? "filled" : "default"}
          aria-pressed={layer.id === chosen.task}
          aria-label={`Show ${layer.text} in the charts`}
          title="Show it in the charts and the graph"
          onClick={() => chosen.choose(layer.id === chosen.task ? null : layer.id)}
        >
          ◎
        </ActionIcon>
        <WorkloadLink workload={layer.workload_key} text={layer.text} at={job} />
      </Group>
    ),
  },
  { head: PART, of: (layer) => layer.part, cell: (layer) => <Part value={layer.part} most={most} /> },
  { head: "Times", of: (layer) => layer.weight, cell: (layer) => layer.weight },
  {
    head: "Best",
    of: (layer) => layer.best_s,
    cell: (layer) => <Seconds value={layer.best_s} disturbed={layer.best_disturbed} />,
  },
  { head: "Untuned", of: (layer) => layer.recommended_s, cell: (layer) => seconds(layer.recommended_s) },
  {
    head: "Gain",
    of: (layer) => layer.gain,
    cell: (layer) => (layer.gain === null ? "–" : `${layer.gain.toFixed(2)}\u00a0x`),
  },
  {
    head: "State",
    of: (layer) => layer.state,
    cell: (layer) => <StateBadge state={layer.state} />,
  },
  { head: "Trials", of: (layer) => layer.trials, cell: (layer) => layer.trials },
  {
    head: LIBRARY,
    of: (layer) => layer.baselines[0]?.seconds,
    cell: (layer) => seconds(layer.baselines[0]?.seconds),
  },
  { head: "Rate", of: (layer) => layer.gflops, cell: (layer) => rate(layer.gflops, layer.unit) },
  { head: PEAK, of: (layer) => layer.share_of_peak, cell: (layer) => percent(layer.share_of_peak) },
  { head: BOUND, of: ofRoofline, cell: (layer) => percent(ofRoofline(layer)) },
  {
    head: "Best config",
    cell: (layer) => (
      <Box style={{ whiteSpace: "nowrap" }}>
        <ConfigText value={layer.best_config} />
      </Box>
    ),
  },
];

/** Whether it is part of the sum. A chain, of weight 0, is beside it: its parts are layers of their own. */
export const counts = ({ weight }: { weight: number }) => weight > 0;

/** Each layer with its share of the sum over all; shares are there only once every layer has a time. */
export function layersOf(tasks: Task[]): Layer[] {
  const taken = (task: Task) => (task.best_s === null || !counts(task) ? null : task.best_s * task.weight);
  const all = tasks.filter(counts).every((task) => task.best_s !== null);
  const sum = tasks.reduce((total, task) => total + (taken(task) ?? 0), 0);
  return tasks.map((task) => ({
    ...task,
    taken: taken(task),
    part: all && sum > 0 && counts(task) ? taken(task)! / sum : null,
    gain: task.best_s && task.recommended_s ? task.recommended_s / task.best_s : null,
  }));
}

/** What the machine allows over what it takes. */
function ofRoofline(layer: Layer): number | null {
  return layer.bound_s && layer.best_s ? layer.bound_s / layer.best_s : null;
}

export function Layers({ job, tasks, chosen }: { job: Job; tasks: Task[]; chosen: Chosen }) {
  const [whole, showWhole] = useState(false);
  const [sorting, setSorting] = useState({ head: PART, down: true });
  // The peak is that of floats.
  const compared = tasks.some((task) => task.unit === "FLOP");
  const bounded = tasks.some((task) => task.bound_s !== null);
  const most = Math.max(...layersOf(tasks).map((layer) => layer.part ?? 0));
  const wanted: Record<string, boolean> = {
    [LIBRARY]: tasks.some((task) => task.baselines.length > 0),
    [PEAK]: compared,
    [BOUND]: bounded,
  };
  const columns = COLUMNS(job, chosen, most).filter(({ head }) => wanted[head] ?? true);
  const of = columns.find(({ head }) => head === sorting.head)?.of ?? (() => null);
  const layers = layersOf(tasks).sort((one, other) => inOrder(of(one), of(other), sorting.down));
  const shown = whole ? layers : layers.slice(0, FEW);
  return (
    <Section title="Layers">
      <Summary layers={layers.filter(counts)} />
      <DataTable
        label="Layers"
        minWidth={1200}
        rows={shown}
        keyOf={(layer) => layer.id}
        rowProps={(layer) => (layer.id === chosen.task ? { bg: "var(--mantine-color-default-hover)" } : {})}
        columns={[...columns, ...(isOver(job) ? [] : [{ head: "Next trial's gain", cell: promiseOf }])]}
        headOf={({ head }) => {
          const sorted = sorting.head === head;
          if (!columns.find((each) => each.head === head)?.of) return <Table.Th key={head}>{head}</Table.Th>;
          return (
            <SortHead
              key={head}
              head={head}
              down={sorted ? sorting.down : null}
              onSort={() => setSorting({ head, down: sorted ? !sorting.down : true })}
              miw={head === "Workload" ? 260 : undefined}
            />
          );
        }}
      />
      {shown.length < layers.length && (
        <Button variant="default" size="compact-sm" mt="xs" onClick={() => showWhole(true)}>
          Show all {layers.length} layers
        </Button>
      )}
      {compared && (
        <Text size="sm" c="dimmed">
          Rates count the operations of a plain convolution: Winograd needs fewer, hence more than the peak.
          {bounded && " The roofline is what peak and memory bandwidth, as measured, allow a layer."}
        </Text>
      )}
    </Section>
  );
}

/** What has no value comes last whichever way. */
function inOrder(one: unknown, other: unknown, down: boolean): number {
  const [first, second] = [one ?? null, other ?? null] as (number | string | null)[];
  if (first === null || second === null) return Number(first === null) - Number(second === null);
  const order = first! < second! ? -1 : first! > second! ? 1 : 0;
  return down ? -order : order;
}

/** How few layers most of the time is in, and their sum. */
function Summary({ layers }: { layers: Layer[] }) {
  if (layers.length < 2 || layers.some((layer) => layer.part === null)) return null;
  const parts = layers.map((layer) => layer.part!).sort((one, other) => other - one);
  let [few, share] = [0, 0];
  while (share < 0.7 && few < parts.length) share += parts[few++]!;
  const sum = layers.reduce((total, layer) => total + layer.taken!, 0);
  return (
    <Text size="sm">
      {percent(share)} of the layers' time is in {few} of {layers.length}; their sum is {seconds(sum)}.
    </Text>
  );
}

/** The bar of the heaviest is full: among many layers none has much of the whole. */
function Part({ value, most }: { value: number | null; most: number }) {
  if (value === null) return "–";
  return (
    <>
      {percent(value)}
      <Progress value={Math.round((value / most) * 100)} size="sm" w={80} aria-label="Share of time" />
    </>
  );
}
