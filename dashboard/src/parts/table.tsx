/** A table that scrolls by itself where it is too wide, with the keyboard as well. */
import { Anchor, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { config } from "../format";

export type Column<Row> = { head: string; cell: (row: Row) => ReactNode };

export function DataTable<Row>({
  label,
  rows,
  columns,
  keyOf,
  minWidth,
  rowProps,
  headOf = (column) => <Table.Th key={column.head}>{column.head}</Table.Th>,
}: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string | number;
  minWidth: number;
  /** For rows that do not look like others. */
  rowProps?: (row: Row) => { bg?: string };
  /** For heads that are more than a word. */
  headOf?: (column: Column<Row>) => ReactNode;
}) {
  return (
    // What scrolls is what gets the focus: arrow keys move it.
    <Table.ScrollContainer
      minWidth={minWidth}
      scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "group", "aria-label": label } }}
    >
      <Table verticalSpacing={6} horizontalSpacing={7}>
        <Table.Thead>
          <Table.Tr>{columns.map(headOf)}</Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={keyOf(row)} {...rowProps?.(row)}>
              {columns.map(({ head, cell }) => (
                <Table.Td key={head}>{cell(row)}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

export function ConfigText({ value }: { value: Record<string, unknown> | null }) {
  return (
    <Text size="sm" ff="monospace">
      {config(value)}
    </Text>
  );
}

/** Where it was measured; what is left out is for the page to choose. */
type At = { target: string; threads?: number; clock?: string };

/** The page of a workload at the measurements of one target, with the config of one record looked at. */
export function workloadPath(workload: string, at: At | null, record: number | null): string {
  const query = new URLSearchParams(at ? { target: at.target } : {});
  if (at?.threads) query.set("threads", String(at.threads));
  if (at?.clock) query.set("clock", at.clock);
  if (record !== null) query.set("record", String(record));
  return `/workloads/${workload}${query.size ? `?${query}` : ""}`;
}

/** To the page of a workload, at the measurements of one target. */
export function WorkloadLink({ workload, text, at }: { workload: string; text: string; at: At | null }) {
  return (
    <Anchor component={Link} href={workloadPath(workload, at, null)} size="sm">
      {text}
    </Anchor>
  );
}
