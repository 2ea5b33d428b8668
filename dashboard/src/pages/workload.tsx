/** One workload: every config tried, why the best is fast, and what it takes elsewhere. */
import { Group, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";

import type { components } from "../api/schema";
import type { Where } from "../api/queries";
import { useBaselines, useTrials, useWorkload } from "../api/queries";
import { millions, rate, seconds } from "../format";
import { ClockMark, Seconds } from "../parts/clock";
import { Choice, Section } from "../parts/section";
import { Empty, Loaded } from "../parts/states";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";
import { Beside } from "./explanation";
import type { Trial } from "./workload-charts";
import { OneKnob, ORDER, TwoKnobs, knobsOf } from "./workload-charts";

type WorkloadView = components["schemas"]["WorkloadView"];

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
        {view.key}, {millions(view.flops, view.unit)}
      </Text>
      {view.workload["kind"] === "qconv2d" && (
        <Text c="dimmed" size="sm">
          {constantsOf(view.workload)}
        </Text>
      )}
      {where === undefined ? (
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
            {({ items, total }) => <Trials trials={items} total={total} view={view} where={where} />}
          </Loaded>
          <Elsewhere view={view} />
        </>
      )}
    </Stack>
  );
}

const SCALES: Record<string, string> = {
  any: "scales of any size",
  small: "scales below a quarter",
  power: "scales that are powers of two",
};

/** What a quantized workload knows of its constants, in words; its text has it in short. */
function constantsOf(workload: WorkloadView["workload"]): string {
  const zeros = ["data_zero", "weight_zero", "out_zero"].map((name) => workload[name] ?? 0);
  const [weights, clip] = ["weight_range", "clamp"].map(
    (name) => workload[name] as number[] | null | undefined,
  );
  return [
    `Zero points of data, weights and result: ${zeros.join(", ")}`,
    ...(weights ? [`weights from ${weights.join(" to ")}`] : []),
    ...(workload["out_dtype"] === "int32" ? [] : [SCALES[String(workload["scale"])]]),
    ...(workload["per_channel"] === false ? ["one scale for all channels"] : []),
    ...(clip ? [`clipped to ${clip.join(" to ")}`] : []),
  ].join("; ");
}

function Trials({
  trials,
  total,
  view,
  where,
}: {
  trials: Trial[];
  total: number;
  view: WorkloadView;
  where: Where;
}) {
  const ran = useMemo(() => trials.filter((trial) => trial.cost_s !== null), [trials]);
  const knobs = useMemo(() => knobsOf(ran), [ran]);
  const libraries = useBaselines(view.key, where).data?.items ?? [];
  const [over, setOver] = useState(ORDER);
  const [first, setFirst] = useState<string | null>(null);
  const [second, setSecond] = useState<string | null>(null);
  if (ran.length === 0) return <Empty title="Every trial failed">The records page has what they said.</Empty>;
  const x = first ?? knobs[0]!;
  const y = second ?? knobs.find((knob) => knob !== x)!;
  const fastest = [...ran]
    .sort((a, b) => Number(a.disturbed) - Number(b.disturbed) || a.ranking_s! - b.ranking_s!)
    .slice(0, 10);
  return (
    <>
      {trials.length < total && (
        <Text size="sm" c="dimmed">
          {trials.length} of {total} trials are drawn, the fastest among them.
        </Text>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Section
          title="All trials over"
          beside={
            <Choice
              aria-label="What the trials are drawn over"
              data={[ORDER, ...knobs]}
              value={over}
              onChange={(value) => setOver(value ?? ORDER)}
            />
          }
        >
          <OneKnob trials={ran} over={over} libraries={libraries} />
        </Section>
        <Section
          title="Best over"
          beside={
            <>
              <Choice aria-label="First knob" data={knobs} value={x} onChange={setFirst} />
              <Choice aria-label="Second knob" data={knobs} value={y} onChange={setSecond} />
            </>
          }
        >
          <TwoKnobs trials={ran} x={x} y={y} />
        </Section>
      </SimpleGrid>
      <Beside workload={view.key} where={where} trials={ran} />
      <Section title="The fastest">
        <DataTable
          label="The fastest configs"
          minWidth={640}
          rows={fastest}
          keyOf={(trial) => trial.record}
          columns={[
            { head: "Time", cell: (trial) => <Seconds value={trial.cost_s} disturbed={trial.disturbed} /> },
            { head: "Rate", cell: (trial) => rate(view.flops / trial.cost_s! / 1e9, view.unit) },
            // Quantized tensors have one layout, which no config chooses.
            ...(view.unit === "FLOP" ? [{ head: "Layouts", cell: (trial: Trial) => trial.layouts }] : []),
            { head: "Numerics", cell: (trial) => trial.numerics },
            { head: "Config", cell: (trial) => <ConfigText value={trial.config} /> },
          ]}
        />
        {fastest.some((trial) => trial.ranking_s !== trial.cost_s) && (
          <Text size="sm" c="dimmed">
            Times are by themselves. What was timed inside the built model as well is ordered by that.
          </Text>
        )}
      </Section>
    </>
  );
}

function Elsewhere({ view }: { view: WorkloadView }) {
  return (
    <Section title="On every target">
      <DataTable
        label="Records by target"
        minWidth={560}
        rows={view.measured}
        keyOf={(each) => `${each.target_key} ${each.clock} ${each.threads}`}
        columns={[
          {
            head: "Target",
            cell: (each) => (
              <>
                <WorkloadLink workload={view.key} text={each.target} at={each} />{" "}
                <ClockMark clock={each.clock} />
              </>
            ),
          },
          { head: "Threads", cell: (each) => each.threads },
          { head: "Records", cell: (each) => each.records },
          { head: "Best", cell: (each) => seconds(each.best_s) },
          {
            head: "Rate",
            cell: (each) => rate(each.best_s && view.flops / each.best_s / 1e9, view.unit),
          },
        ]}
      />
    </Section>
  );
}
