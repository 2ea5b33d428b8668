/** The fastest configs of a workload, and what it takes on every target. */
import { Button, CopyButton, Text, UnstyledButton } from "@mantine/core";

import type { components } from "../api/schema";
import { rate, seconds } from "../format";
import { ClockMark, Seconds } from "../parts/clock";
import { Section } from "../parts/section";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";
import type { Trial } from "./workload-best";
import { byRank } from "./workload-best";

type WorkloadView = components["schemas"]["WorkloadView"];

const SCALES: Record<string, string> = {
  any: "scales of any size",
  small: "scales below a quarter",
  power: "scales that are powers of two",
};

/** What a quantized workload knows of its constants, in words; its text has it in short. */
export function constantsOf(workload: WorkloadView["workload"]): string {
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

type Props = {
  view: WorkloadView;
  trials: Trial[];
  chosen: number | null;
  onChoose: (record: number) => void;
};

export function Fastest({ view, trials, chosen, onChoose }: Props) {
  const fastest = [...trials].sort(byRank).slice(0, 10);
  return (
    <Section title="The fastest">
      <DataTable
        label="The fastest configs"
        minWidth={560}
        rows={fastest}
        keyOf={(trial) => trial.record}
        columns={[
          {
            head: "Time",
            cell: (trial) => (
              <UnstyledButton
                fz="sm"
                td="underline"
                fw={trial.record === chosen ? 700 : 400}
                aria-pressed={trial.record === chosen}
                title="Its loops, caches and assembly"
                onClick={() => onChoose(trial.record)}
              >
                <Seconds value={trial.ranking_s} disturbed={trial.disturbed} />
              </UnstyledButton>
            ),
          },
          { head: "Rate", cell: (trial) => rate(view.flops / trial.ranking_s! / 1e9, view.unit) },
          // Quantized tensors have one layout, which no config chooses.
          ...(view.unit === "FLOP" ? [{ head: "Layouts", cell: (trial: Trial) => trial.layouts }] : []),
          { head: "Numerics", cell: (trial) => trial.numerics },
          { head: "Config", cell: (trial) => <ConfigText value={trial.config} /> },
          { head: "Copy", cell: (trial) => <Copy value={JSON.stringify(trial.config)} /> },
        ]}
      />
      {fastest.some((trial) => trial.ranking_s !== trial.cost_s) && (
        <Text size="sm" c="dimmed">
          Of those that were also timed inside the built model, the fastest there has the lowest time, and so
          on.
        </Text>
      )}
    </Section>
  );
}

function Copy({ value }: { value: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button size="compact-xs" variant="default" title="Copy the config as JSON" onClick={copy}>
          {copied ? "Copied" : "Copy"}
        </Button>
      )}
    </CopyButton>
  );
}

export function Elsewhere({ view }: { view: WorkloadView }) {
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
