/** Jobs layer by layer: times beside each other, whether the difference is more than noise, and which knobs differ. */
import { Button, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";

import { percent, seconds } from "../format";
import { Seconds } from "../parts/clock";
import { Section } from "../parts/section";
import { SortHead } from "../parts/sortable";
import { Empty } from "../parts/states";
import type { Column } from "../parts/table";
import { DataTable, WorkloadLink } from "../parts/table";
import type { Shown } from "./compare-facts";
import { said } from "./compare-facts";
import type { SideLayer } from "./compare-side";
import { comparable } from "./compare-side";
import { Dot } from "./job-charts";
import { counts } from "./job-layers";

/** Below this a difference is none, whatever the scatter of the few repeats says. */
const LEAST = 0.02;
const FEW = 100;

type Row = {
  key: string;
  text: string;
  /** Of each side; undefined where it has no such layer. */
  layers: (SideLayer | undefined)[];
  /** The first's time over each one's: above 1 it is faster. None by another clock. */
  ratios: (number | null)[];
  noises: number[];
  /** What the largest difference means for the whole model, in seconds: below 0 it got slower. */
  saved: number;
};

function rowsOf(sides: Shown[]): Row[] {
  const keys = [...new Set(sides.flatMap(({ layers }) => layers.map(({ key }) => key)))];
  const byKey = sides.map(({ layers }) => new Map(layers.map((layer) => [layer.key, layer])));
  return keys.map((key) => {
    const layers = byKey.map((all) => all.get(key));
    const first = layers[0];
    const held = layers.map((layer, at) =>
      first?.seconds && layer?.seconds && comparable(sides[0]!, sides[at]!)
        ? { ratio: first.seconds / layer.seconds, saved: layer.weight * (first.seconds - layer.seconds) }
        : null,
    );
    const spread = (layer: SideLayer | undefined) => (layer?.spread ?? 0) / 2;
    return {
      key,
      text: layers.find((layer) => layer)!.text,
      layers,
      ratios: held.map((each) => each?.ratio ?? null),
      noises: layers.map((layer) => Math.max(LEAST, spread(first) + spread(layer))),
      saved: held
        .map((each) => each?.saved ?? 0)
        .reduce((most, each) => (Math.abs(each) > Math.abs(most) ? each : most), 0),
    };
  });
}

type Show = "all" | "slower" | "faster" | "configs";

export function CompareLayers({ sides }: { sides: Shown[] }) {
  const rows = useMemo(() => rowsOf(sides), [sides]);
  const [show, setShow] = useState<Show>("all");
  const [whole, setWhole] = useState(false);
  const [sort, setSort] = useState({ head: "Difference", down: true });
  const summed = rows.filter(({ layers }) => layers.some((layer) => layer && counts(layer)));
  const common = summed.filter(({ layers }) => layers.every(Boolean));
  const slower = (row: Row) => row.ratios.some((ratio, at) => ratio !== null && ratio < 1 - row.noises[at]!);
  const faster = (row: Row) => row.ratios.some((ratio, at) => ratio !== null && ratio > 1 + row.noises[at]!);
  const tests: Record<Show, (row: Row) => boolean> = {
    all: () => true,
    slower,
    faster,
    configs: (row) => row.layers.some((layer) => differencesOf(row.layers[0], layer).length > 0),
  };
  const key = (row: Row): number | string => {
    if (sort.head === "Workload") return row.text;
    const at = sides.findIndex(({ head }) => sort.head === head);
    return at < 0 ? Math.abs(row.saved) : (row.layers[at]?.seconds ?? -1);
  };
  const shown = rows.filter(tests[show]).sort((one, other) => {
    const order = key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0;
    return sort.down ? -order : order;
  });
  const columns: Column<Row>[] = [
    {
      head: "Workload",
      cell: ({ key: workload, text, layers }) => {
        const at = layers.findIndex(Boolean);
        const { weight } = layers[at]!;
        const { target, threads, clock } = sides[at]!;
        return (
          <WorkloadLink
            workload={workload}
            text={`${weight > 1 ? `${weight} x ` : ""}${text}`}
            at={{ target, threads, ...(clock && { clock }) }}
          />
        );
      },
    },
    ...sides.map(({ head }, at) => ({
      head,
      cell: (row: Row) => <Time row={row} at={at} />,
    })),
    {
      head: "Difference",
      cell: ({ saved }) =>
        saved === 0 ? "–" : `${seconds(Math.abs(saved))} ${saved > 0 ? "saved" : "lost"}`,
    },
    { head: "Knobs that differ", cell: (row) => <Knobs row={row} sides={sides} /> },
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
          : `${common.length} of ${summed.length} layers are in all of them. `}
        {common.length > 0 && <Sum rows={common} sides={sides} />}
      </Text>
      {shown.length === 0 ? (
        <Empty title="None">No layer is like that.</Empty>
      ) : (
        <DataTable
          label="Layer by layer"
          minWidth={480 + 150 * sides.length}
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

/** What the layers take that have a time in each. */
function Sum({ rows, sides }: { rows: Row[]; sides: Shown[] }) {
  const timed = rows.filter(({ layers }) => layers.every((layer) => layer!.seconds !== null));
  if (timed.length === 0) return "None of these has a time in all of them.";
  const sums = sides.map((_, at) =>
    timed.reduce((sum, { layers }) => sum + layers[at]!.weight * layers[at]!.seconds!, 0),
  );
  const against = (side: Shown, at: number) =>
    at > 0 && comparable(sides[0]!, side) ? `, ${said(sums[0]! / sums[at]!, 0.01)}` : "";
  const parts = sides.map((side, at) => `${seconds(sums[at])} in ${side.said}${against(side, at)}`);
  const which =
    timed.length === rows.length ? "These" : `The ${timed.length} that have a time in all of them`;
  return `${which} take ${parts.join("; ")}.`;
}

function Time({ row, at }: { row: Row; at: number }) {
  const layer = row.layers[at];
  if (!layer) return "no such layer";
  const [ratio, noise] = [row.ratios[at]!, row.noises[at]!];
  const same = ratio === null || Math.abs(ratio - 1) <= noise;
  return (
    <Stack gap={0} style={{ whiteSpace: "nowrap" }}>
      <Text size="sm">
        <Seconds value={layer.seconds} disturbed={layer.disturbed} />
        {layer.spread !== null && (
          <Text span size="xs" c="dimmed">
            {" "}
            ±&nbsp;{percent(layer.spread / 2)}
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

/** Names of the knobs that two layers' configs have different values of; the kernel is one. */
function differencesOf(one: SideLayer | undefined, other: SideLayer | undefined): string[] {
  const [first, second] = [one?.config, other?.config];
  if (!first || !second) return [];
  return [...new Set([...Object.keys(first), ...Object.keys(second)])].filter(
    (knob) => first[knob] !== second[knob],
  );
}

function Knobs({ row, sides }: { row: Row; sides: Shown[] }) {
  const knobs = [...new Set(row.layers.flatMap((layer) => differencesOf(row.layers[0], layer)))];
  const versions = new Set(row.layers.map((layer) => layer?.version ?? null).filter((each) => each !== null));
  const without = sides.filter((_, at) => !row.layers[at]?.config);
  if (knobs.length === 0 && without.length > 0)
    return <Text size="sm">no config in {without.map(({ said }) => said).join(", ")}</Text>;
  if (knobs.length === 0)
    return versions.size > 1 ? <Text size="sm">the same, of another kernel version</Text> : "none";
  const other = knobs.includes("kernel");
  // Knobs of different kernels have nothing in common.
  const named = other ? ["kernel"] : knobs;
  const textOf = (config: NonNullable<SideLayer["config"]>) =>
    named.map((knob) => (other ? config[knob] : `${knob}=${config[knob] ?? "–"}`)).join(" ");
  return (
    <Stack gap={0}>
      {sides.map(({ id, colour }, at) => {
        const config = row.layers[at]?.config;
        return (
          <Group key={id} gap={6} wrap="nowrap">
            <Dot colour={colour} />
            <Text size="xs" ff="monospace">
              {config ? textOf(config) : "–"}
            </Text>
          </Group>
        );
      })}
    </Stack>
  );
}
