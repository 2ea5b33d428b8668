/** One workload: every config tried, over time, over each knob, and over two knobs at once. */
import { Group, Select, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";

import type { components } from "../api/schema";
import type { Where } from "../api/queries";
import { useTrials, useWorkload } from "../api/queries";
import { config, seconds } from "../format";
import { Chart } from "../parts/chart";
import { ClockMark } from "../parts/clock";
import { Empty, Loaded } from "../parts/states";

type WorkloadView = components["schemas"]["WorkloadView"];
type Trial = components["schemas"]["TrialPoint"];

export default function WorkloadPage({ workload }: { workload: string }) {
  const found = useWorkload(workload);
  return <Loaded query={found}>{(view) => <Measured view={view} />}</Loaded>;
}

function Measured({ view }: { view: WorkloadView }) {
  const [asked, ask] = useSearchParams();
  const at = Math.max(
    0,
    view.measured.findIndex(
      (each) =>
        each.target === asked.get("target") &&
        String(each.threads) === (asked.get("threads") ?? "1") &&
        each.clock === (asked.get("clock") ?? each.clock),
    ),
  );
  const here = view.measured[at];
  // By key: a name may stand for a target that has changed since.
  const where: Where | undefined = here && {
    target: here.target_key,
    clock: here.clock,
    threads: here.threads,
  };
  const trials = useTrials(view.key, where);
  return (
    <Stack>
      <Group gap="xs">
        <Title order={2} size="h3">
          {view.text}
        </Title>
        {here && <ClockMark clock={here.clock} />}
      </Group>
      <Text c="dimmed" size="sm">
        {view.key}, {(view.flops / 1e6).toFixed(0)} MFLOP
      </Text>
      {here === undefined ? (
        <Empty title="Nothing was measured of it yet">A job of its model, or of itself, does that.</Empty>
      ) : (
        <>
          <Select
            label="Measured for"
            allowDeselect={false}
            maw={420}
            data={view.measured.map((each, index) => ({
              value: String(index),
              label: `${each.target}, ${each.threads} thread${each.threads > 1 ? "s" : ""}, ${each.clock}: ${
                each.records
              } records, best ${seconds(each.best_s)}`,
            }))}
            value={String(at)}
            onChange={(value) => {
              const chosen = view.measured[Number(value)]!;
              ask({ target: chosen.target, threads: String(chosen.threads), clock: chosen.clock });
            }}
          />
          <Loaded query={trials}>
            {({ items, total }) => <Trials trials={items} total={total} view={view} />}
          </Loaded>
        </>
      )}
    </Stack>
  );
}

function Trials({ trials, total, view }: { trials: Trial[]; total: number; view: WorkloadView }) {
  const ran = useMemo(() => trials.filter((trial) => trial.cost_s !== null), [trials]);
  const knobs = useMemo(() => knobsOf(ran), [ran]);
  const [first, setFirst] = useState<string | null>(null);
  const [second, setSecond] = useState<string | null>(null);
  if (ran.length === 0) return <Empty title="Every trial failed">The records page has what they said.</Empty>;
  const x = first ?? knobs[0]!;
  const y = second ?? knobs.find((knob) => knob !== x)!;
  const fastest = [...ran].sort((one, other) => one.cost_s! - other.cost_s!).slice(0, 10);
  return (
    <>
      {trials.length < total && (
        <Text size="sm" c="dimmed">
          {trials.length} of {total} trials are drawn, the fastest among them.
        </Text>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <section aria-labelledby="over-time">
          <Title order={3} size="h5" id="over-time">
            Over time
          </Title>
          <OverTime trials={ran} />
        </section>
        <section aria-labelledby="over-knobs">
          <Group align="end" gap="xs">
            <Title order={3} size="h5" id="over-knobs">
              Best over
            </Title>
            <Select
              size="xs"
              aria-label="First knob"
              data={knobs}
              value={x}
              allowDeselect={false}
              onChange={setFirst}
            />
            <Select
              size="xs"
              aria-label="Second knob"
              data={knobs}
              value={y}
              allowDeselect={false}
              onChange={setSecond}
            />
          </Group>
          <TwoKnobs trials={ran} x={x} y={y} />
        </section>
      </SimpleGrid>
      <section aria-labelledby="fastest">
        <Title order={3} size="h5" id="fastest">
          The fastest
        </Title>
        <Table.ScrollContainer
          minWidth={640}
          scrollAreaProps={{ tabIndex: 0, "aria-label": "The fastest configs" }}
        >
          <Table>
            <Table.Thead>
              <Table.Tr>
                {["Time", "GFLOP/s", "Layouts", "Numerics", "Config"].map((head) => (
                  <Table.Th key={head}>{head}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {fastest.map((trial) => (
                <Table.Tr key={trial.record}>
                  <Table.Td>{seconds(trial.cost_s)}</Table.Td>
                  <Table.Td>{(view.flops / trial.cost_s! / 1e9).toFixed(1)}</Table.Td>
                  <Table.Td>{trial.layouts}</Table.Td>
                  <Table.Td>{trial.numerics}</Table.Td>
                  <Table.Td>
                    <Text size="sm" ff="monospace">
                      {config(trial.config)}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
        <Text size="sm" c="dimmed">
          Why it is fast, with loop nest and caches: <code>tilefleet explain {view.key}</code>
        </Text>
      </section>
    </>
  );
}

/** Knobs with more than one value, the kernel first. */
function knobsOf(trials: Trial[]): string[] {
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

function OverTime({ trials }: { trials: Trial[] }) {
  const option = useMemo(() => {
    const kernels = [...new Set(trials.map((trial) => String(trial.config["kernel"])))];
    return {
      grid: { left: 64, right: 16, top: 36, bottom: 40 },
      legend: { top: 0 },
      tooltip: {
        trigger: "item",
        formatter: (point: { value: [number, number, string] }) =>
          `${seconds(point.value[1])}\n${point.value[2]}`,
      },
      xAxis: { type: "value", name: "trial", nameLocation: "middle", nameGap: 24 },
      yAxis: {
        type: "log",
        min: "dataMin",
        max: "dataMax",
        axisLabel: { formatter: (value: number) => seconds(value) },
      },
      series: kernels.map((kernel) => ({
        type: "scatter",
        name: kernel,
        symbolSize: 6,
        data: trials
          .map((trial, index) => [index, trial.cost_s, config(trial.config), trial.config["kernel"]])
          .filter((point) => point[3] === kernel),
      })),
    };
  }, [trials]);
  return <Chart option={option} label={`Times of ${trials.length} trials in the order they were measured`} />;
}

function TwoKnobs({ trials, x, y }: { trials: Trial[]; x: string; y: string }) {
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
