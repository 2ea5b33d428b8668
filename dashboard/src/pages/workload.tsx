/** One workload: every config tried, which knobs matter, why the best is fast, and what it takes elsewhere. */
import { Button, CopyButton, Group, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMemo, useState } from "react";

import type { Where } from "../api/queries";
import { useBaselines, useInsight, useTrials, useWorkload } from "../api/queries";
import type { components } from "../api/schema";
import { kilobytes, millions, percent, rate, seconds } from "../format";
import { ClockMark } from "../parts/clock";
import { Choice, Section } from "../parts/section";
import { Empty, Loaded } from "../parts/states";
import { Tile } from "../parts/tile";
import { useAddress } from "../parts/url-state";
import { useTitle } from "../tab";
import { Beside } from "./explanation";
import type { Trial } from "./workload-best";
import { bestOf, likeBest } from "./workload-best";
import { kernelOf, knobsOf, OneKnob, ORDER, TwoKnobs } from "./workload-charts";
import { Importance, PredictedMeasured } from "./workload-insight";
import { Parallel } from "./workload-parallel";
import { Roofline, roofOf } from "./workload-roofline";
import { constantsOf, Elsewhere, Fastest } from "./workload-tables";
import { Tune } from "./workload-tune";

type WorkloadView = components["schemas"]["WorkloadView"];
type Measured = WorkloadView["measured"][number];

export default function WorkloadPage({ workload }: { workload: string }) {
  const found = useWorkload(workload);
  useTitle(found.data?.text);
  return <Loaded query={found}>{(view) => <Page view={view} />}</Loaded>;
}

function Page({ view }: { view: WorkloadView }) {
  const [asked, change] = useAddress();
  const [tuning, tune] = useState(false);
  const at = Math.max(
    0,
    view.measured.findIndex(
      (each) =>
        [each.target, each.target_key].includes(asked.get("target") ?? each.target) &&
        String(each.threads) === (asked.get("threads") ?? String(each.threads)) &&
        each.clock === (asked.get("clock") ?? each.clock),
    ),
  );
  const here = view.measured[at];
  return (
    <Stack>
      <Group justify="space-between" align="start">
        <div>
          <Group gap="xs">
            <Title order={2} size="h3">
              {view.text}
            </Title>
            {here && <ClockMark clock={here.clock} />}
          </Group>
          <Text c="dimmed" size="sm">
            {view.key}, {millions(view.flops, view.unit)}, {kilobytes(view.bytes)} in and out
          </Text>
          {view.workload["kind"] === "qconv2d" && (
            <Text c="dimmed" size="sm">
              {constantsOf(view.workload)}
            </Text>
          )}
        </div>
        <Group gap="xs">
          <CopyButton value={window.location.href}>
            {({ copied, copy }) => (
              <Button variant="default" onClick={copy}>
                {copied ? "Copied" : "Copy the link to this view"}
              </Button>
            )}
          </CopyButton>
          <Button onClick={() => tune(true)}>Tune it</Button>
        </Group>
      </Group>
      {tuning && <Tune view={view} at={here ?? null} onClose={() => tune(false)} />}
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
              change({
                target: chosen.target,
                threads: String(chosen.threads),
                clock: chosen.clock,
                record: null,
                kernel: null,
              });
            }}
          />
          <At key={at} view={view} here={here} />
          <Elsewhere view={view} />
        </>
      )}
    </Stack>
  );
}

function At({ view, here }: { view: WorkloadView; here: Measured }) {
  // By key: a name may stand for a target that has changed since.
  const where = useMemo(
    () => ({ target: here.target_key, clock: here.clock, threads: here.threads }),
    [here.target_key, here.clock, here.threads],
  );
  const trials = useTrials(view.key, where);
  return (
    <Loaded query={trials}>
      {({ items, total, failed }) => (
        <Trials trials={items} total={total} failed={failed} view={view} here={here} where={where} />
      )}
    </Loaded>
  );
}

const NONE: never[] = [];
type Props = {
  trials: Trial[];
  total: number;
  failed: number;
  view: WorkloadView;
  here: Measured;
  where: Where;
};

function Trials({ trials, total, failed, view, here, where }: Props) {
  const ran = useMemo(() => trials.filter((trial) => trial.ranking_s !== null), [trials]);
  const knobs = useMemo(() => knobsOf(ran), [ran]);
  const libraries = useBaselines(view.key, where).data?.items ?? NONE;
  const insight = useInsight(view.key, where);
  const [asked, change] = useAddress();
  const ranked = useMemo(() => insight.data?.knobs.map((each) => each.knob) ?? NONE, [insight.data]);
  if (ran.length === 0) return <Empty title="Every trial failed">The records page has what they said.</Empty>;
  const kernels = [...new Set(ran.map(kernelOf))];
  const best = bestOf(ran);
  const known = (name: string, among: string[]) =>
    among.includes(asked.get(name) ?? "") ? asked.get(name)! : null;
  const over = known("over", knobs) ?? ORDER;
  const kernel = known("kernel", kernels) ?? kernelOf(best);
  const record = Number(asked.get("record")) || null;
  const choose = (id: number) => change({ record: String(id) });
  const roof = roofOf(view, here);
  const giga = view.flops / best.ranking_s! / 1e9;
  return (
    <>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }}>
        <Tile name="Best" value={seconds(best.ranking_s)} />
        <Tile name="Rate" value={rate(giga, view.unit)} />
        <Tile name="Of the roof" value={roof ? percent(giga / roof) : "–"} />
        <Tile name="Trials" value={String(total)} />
        <Tile name="Failed" value={String(failed)} />
      </SimpleGrid>
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
              onChange={(value) => change({ over: value === ORDER ? null : value })}
            />
          }
        >
          <OneKnob trials={ran} over={over} libraries={libraries} chosen={record} onChoose={choose} />
        </Section>
        <Section title="Roofline">
          <Roofline view={view} here={here} trials={ran} best={best} libraries={libraries} />
        </Section>
      </SimpleGrid>
      <OneKernel
        trials={ran}
        kernels={kernels}
        kernel={kernel}
        ranked={ranked}
        x={asked.get("x")}
        y={asked.get("y")}
        onChange={change}
      />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Section title="What matters">
          <Loaded query={insight}>
            {(found) => (
              <Importance
                insight={found}
                onPick={(knob) => change({ over: knobs.includes(knob) ? knob : null })}
              />
            )}
          </Loaded>
        </Section>
        <Section title="Predicted and measured">
          <Loaded query={insight}>
            {(found) => <PredictedMeasured insight={found} trials={ran} onChoose={choose} />}
          </Loaded>
        </Section>
      </SimpleGrid>
      <Fastest view={view} trials={ran} chosen={record} onChoose={choose} />
      <Beside workload={view.key} where={where} trials={ran} chosen={record} />
    </>
  );
}

/** What the knobs of one kernel do: all at once, and two against each other. */
function OneKernel({
  trials,
  kernels,
  kernel,
  ranked,
  x,
  y,
  onChange,
}: {
  trials: Trial[];
  kernels: string[];
  kernel: string;
  ranked: string[];
  x: string | null;
  y: string | null;
  onChange: (changes: Record<string, string | null>) => void;
}) {
  const mine = useMemo(() => trials.filter((trial) => kernelOf(trial) === kernel), [trials, kernel]);
  const knobs = useMemo(() => {
    const place = (knob: string) => (ranked.includes(knob) ? ranked.indexOf(knob) : ranked.length);
    return knobsOf(mine)
      .filter((knob) => knob !== "kernel")
      .sort((one, other) => place(one) - place(other));
  }, [mine, ranked]);
  const alike = useMemo(() => likeBest(mine), [mine]);
  const across = x !== null && knobs.includes(x) ? x : (knobs[0] ?? "kernel");
  const up = y !== null && knobs.includes(y) ? y : (knobs.find((knob) => knob !== across) ?? across);
  return (
    <>
      <Section
        title="Across all knobs of"
        beside={
          <Choice
            aria-label="Kernel of the configs"
            data={kernels}
            value={kernel}
            onChange={(value) => onChange({ kernel: value })}
          />
        }
      >
        <Parallel trials={mine} kernel={kernel} ranked={ranked} />
      </Section>
      <Section
        title={`Best of ${kernel} over`}
        beside={
          <>
            <Choice
              aria-label="First knob"
              data={knobs}
              value={across}
              onChange={(knob) => onChange({ x: knob })}
            />
            <Choice
              aria-label="Second knob"
              data={knobs}
              value={up}
              onChange={(knob) => onChange({ y: knob })}
            />
          </>
        }
      >
        <TwoKnobs trials={alike} x={across} y={up} />
      </Section>
    </>
  );
}
