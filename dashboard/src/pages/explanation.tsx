/** The best config beside the analysis's: its loops, and what each touches against the sizes of the caches. */
import {
  Card,
  Code,
  Group,
  Loader,
  SimpleGrid,
  Stack,
  Text,
  Title,
  useComputedColorScheme,
} from "@mantine/core";
import { useMemo } from "react";

import type { Explanation } from "../api/client";
import type { Explained as WhichConfig, Where } from "../api/queries";
import { useExplanation } from "../api/queries";
import { config, kilobytes, percent, seconds } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { Notice } from "../parts/notice";
import { Section } from "../parts/section";
import { Failure } from "../parts/states";
import { ConfigText } from "../parts/table";
import type { Trial } from "./workload-best";

type Of = { workload: string; where: Where; trials: Trial[] };

/** The best, or what was chosen, beside the analysis's. */
export function Beside({ chosen, ...of }: Of & { chosen: number | null }) {
  return (
    <Section title={chosen === null ? "The best beside the analysis's" : "The chosen beside the best"}>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {chosen !== null && <OneConfig key={chosen} {...of} which={chosen} title={`Record ${chosen}`} />}
        <OneConfig {...of} which="best" title="Best" />
        {chosen === null && <OneConfig {...of} which="analysis" title="By the analysis" />}
      </SimpleGrid>
    </Section>
  );
}

function OneConfig({ workload, where, trials, which, title }: Of & { which: WhichConfig; title: string }) {
  const { data, error } = useExplanation(workload, where, which);
  return (
    <Card withBorder padding="sm">
      <Title order={4} size="h6">
        {title}
      </Title>
      {data ? (
        <Explained explanation={data} trials={trials} title={title} />
      ) : error ? (
        <Failure error={error} />
      ) : (
        <Group gap="sm" py="md" role="status">
          <Loader size="sm" role="img" aria-label="Loading" />
          <Text size="sm">
            It is being compiled, to see its loops and its code: seconds, or longer on a busy machine.
          </Text>
        </Group>
      )}
    </Card>
  );
}

function Explained({
  explanation,
  trials,
  title,
}: {
  explanation: Explanation;
  trials: Trial[];
  title: string;
}) {
  const text = config(explanation.config);
  const measured = explanation.measured_s ?? trials.find((trial) => config(trial.config) === text)?.cost_s;
  const { accumulators, of } = explanation.registers;
  return (
    <Stack gap="xs">
      <ConfigText value={explanation.config} />
      <Text size="sm">
        {seconds(measured)} measured, {seconds(explanation.predicted_s)} predicted; {accumulators} of {of}{" "}
        vector registers hold sums
      </Text>
      <WorkingSets explanation={explanation} title={title} />
      {explanation.residents.map((each) => (
        <Text size="sm" key={`${each.level} ${each.what}`}>
          Meant to stay in {each.level}: {each.what}, {kilobytes(each.size)}
        </Text>
      ))}
      <Group gap="xs">
        <Title order={5} size="sm">
          Loop nest
        </Title>
        <Text size="sm" c="dimmed">
          share of the multiply-adds; → where most of them are
        </Text>
      </Group>
      <Code block tabIndex={0} aria-label={`Loop nest, ${title}`} mah={420}>
        {explanation.nest.map(lineOf).join("\n")}
      </Code>
      <Assembly loop={explanation.hot_loop} title={title} />
    </Stack>
  );
}

/** The instructions that most of the time is spent on. */
function Assembly({ loop, title }: { loop: Explanation["hot_loop"]; title: string }) {
  if (!loop) return <Text size="sm">Its code has no loop: all of it is straight.</Text>;
  const spilled = loop.spills + loop.reloads;
  return (
    <>
      <Group gap="xs">
        <Title order={5} size="sm">
          Hottest loop, {loop.dialect}
        </Title>
        <Text size="sm" c="dimmed">
          {loop.instructions} instructions: {loop.multiply_adds} multiply-adds of {loop.vector_bits} bits,{" "}
          {loop.loads} loads, {loop.stores} stores
        </Text>
      </Group>
      {spilled > 0 && (
        <Notice kind="warning" title="Registers spill">
          {loop.spills} stores to the stack and {loop.reloads} loads from it in every turn.
        </Notice>
      )}
      <Code block tabIndex={0} aria-label={`Assembly, ${title}`} mah={320}>
        {loop.lines.join("\n")}
      </Code>
    </>
  );
}

function lineOf({ depth, text, moves, share, hot }: Explanation["nest"][number]): string {
  const part = (share === null ? "" : percent(share)).padStart(6);
  return `${part} ${hot ? "→" : " "} ${"  ".repeat(depth)}${text}${moves.length ? `  [${moves.join(", ")}]` : ""}`;
}

function labelOf({ loop, total, level }: Explanation["working_sets"][number]): string {
  return `${loop.replace(/^parallel /, "")}: ${kilobytes(total)}, ${level}`;
}

/** What one run of each loop around the hot code touches, the outermost on top, between the caches' sizes. */
function WorkingSets({ explanation, title }: { explanation: Explanation; title: string }) {
  const sets = explanation.working_sets;
  const scheme = useComputedColorScheme();
  const option = useMemo(() => {
    const sizes = [...sets.map((each) => each.total), ...explanation.caches.map((cache) => cache.bytes)];
    const buffers = [...new Set(sets.flatMap((each) => Object.keys(each.bytes)))];
    return {
      grid: { left: 8, right: 16, top: 40, bottom: 24, containLabel: true },
      tooltip: {
        trigger: "item",
        formatter: (bar: { dataIndex: number; name: string }) =>
          [
            bar.name,
            ...buffers
              .filter((buffer) => sets[bar.dataIndex]?.bytes[buffer])
              .map((buffer) => `${buffer} ${kilobytes(sets[bar.dataIndex]!.bytes[buffer]!)}`),
          ].join("\n"),
      },
      xAxis: {
        type: "log",
        logBase: 2,
        min: Math.min(...sizes) / 2,
        max: Math.max(...sizes) * 2,
        axisLabel: { formatter: kilobytes, hideOverlap: true },
      },
      yAxis: { type: "category", data: sets.map(labelOf) },
      series: [
        {
          type: "bar",
          data: sets.map((each) => each.total),
          markLine: {
            symbol: "none",
            lineStyle: { color: lines(scheme)[1] },
            data: explanation.caches.map((cache) => ({
              xAxis: cache.bytes,
              label: { formatter: cache.level, position: "end" },
            })),
          },
        },
      ],
    };
  }, [explanation, sets, scheme]);
  const words = sets
    .map((each) => `${each.loop}: ${kilobytes(each.total)}, fits in ${each.level}`)
    .join("; ");
  if (sets.length === 0) return null;
  const caches = explanation.caches.map((cache) => `${cache.level} ${kilobytes(cache.bytes)}`).join(", ");
  return (
    <>
      <Text size="sm" c="dimmed">
        What one run of each loop touches; the lines are the caches: {caches}
      </Text>
      <Chart
        option={option}
        height={76 + 26 * sets.length}
        label={`${title}: what one run of each loop touches. ${words}. Caches: ${caches}`}
      />
    </>
  );
}
