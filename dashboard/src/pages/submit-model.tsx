/** What is in a model: how much of it can be tuned, its operators, its layers, and what is left as it is. */
import { Badge, Group, SimpleGrid, Text } from "@mantine/core";

import type { Uploaded } from "../api/upload";
import { digits, kilobytes, millions, percent } from "../format";
import { Notice } from "../parts/notice";
import { Section } from "../parts/section";
import { DataTable, WorkloadLink } from "../parts/table";
import { Tile } from "../parts/tile";

const SHOWN = 12;

export function InModel({ model, workloads, name }: Uploaded & { name: string }) {
  const share = workloads.tunable_share;
  const kinds = Object.entries(workloads.operators);
  const whole = workloads.workloads.reduce((sum, each) => sum + each.flops * each.count, 0);
  return (
    <Section title={`What is in ${name}`} order={2}>
      {model.name !== name && (
        <Text size="sm" c="dimmed">
          The same bytes are stored already, as {model.name}.
        </Text>
      )}
      <SimpleGrid cols={{ base: 2, sm: 4 }} my="xs">
        <Tile
          name="Can be tuned"
          value={`${model.tunable} of ${model.operators}`}
          note={`convolutions and matrix products, ${workloads.workloads.length} of them distinct`}
        />
        <Tile
          name="Share of the operations"
          value={share === null ? "–" : share > 0.995 && share < 1 ? "> 99 %" : percent(share)}
          note="of all products, can be tuned"
        />
        <Tile name="Operations" value={`${digits(whole / 1e9)} billion`} note="in one inference" />
        <Tile
          name="Takes"
          value={workloads.inputs.map((input) => input.shape.join("×")).join(", ")}
          note={`${workloads.inputs.map((input) => input.name).join(", ")}; the file has ${kilobytes(model.size)}`}
        />
      </SimpleGrid>
      {model.tunable === 0 && (
        <Notice kind="warning" title="There is nothing to tune">
          {workloads.not_tunable.length
            ? "The products in it are of kinds that no kernel computes; the table below says why."
            : "It has no convolution and no matrix product."}
        </Notice>
      )}
      {kinds.length > 0 && (
        <Group gap={6} my="xs" component="ul" aria-label="Operators" p={0}>
          {kinds.slice(0, SHOWN).map(([kind, count]) => (
            <Badge key={kind} component="li" variant="default" tt="none">
              {count} × {kind}
            </Badge>
          ))}
          {kinds.length > SHOWN && (
            <Text size="sm" component="li" c="dimmed">
              and {kinds.length - SHOWN} kinds more
            </Text>
          )}
        </Group>
      )}
      <details>
        <summary>The {workloads.workloads.length} distinct layers</summary>
        <DataTable
          label="Layers"
          minWidth={520}
          rows={workloads.workloads}
          keyOf={(each) => each.key}
          columns={[
            {
              head: "Layer",
              cell: (each) => <WorkloadLink workload={each.key} text={each.text} at={null} />,
            },
            { head: "Times", cell: (each) => each.count },
            { head: "Operations", cell: (each) => millions(each.flops, each.unit) },
            { head: "Share", cell: (each) => percent(whole ? (each.flops * each.count) / whole : 0) },
          ]}
        />
      </details>
      {workloads.not_tunable.length > 0 && (
        <details open={model.tunable === 0}>
          <summary>{workloads.not_tunable.length} products are left to TVM</summary>
          <DataTable
            label="Left to TVM"
            minWidth={520}
            rows={workloads.not_tunable}
            keyOf={(each) => each.node}
            columns={[
              { head: "Node", cell: (each) => each.node },
              { head: "Operator", cell: (each) => each.op },
              { head: "Operations", cell: (each) => (each.flops ? millions(each.flops, "FLOP") : "–") },
              { head: "Why", cell: (each) => each.reason },
            ]}
          />
        </details>
      )}
    </Section>
  );
}
