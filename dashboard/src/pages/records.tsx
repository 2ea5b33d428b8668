/** Measurements: filtered, sorted, exported. */
import { Anchor, Button, Group, Select, Stack, Table, TextInput, Title, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import type { TuningRecord } from "../api/client";
import { api, data } from "../api/client";
import { useTargets } from "../api/queries";
import { config, rate } from "../format";
import { ClockMark, Seconds } from "../parts/clock";
import { Empty, Failure, Loading } from "../parts/states";
import type { Column } from "../parts/table";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";

type Sorted = Column<TuningRecord> & { of: (record: TuningRecord) => number | string };

const COLUMNS: Sorted[] = [
  { head: "Number", of: (record) => record.id, cell: (record) => record.id },
  {
    head: "Workload",
    of: (record) => record.text,
    cell: (record) => (
      <WorkloadLink
        workload={record.workload_key}
        text={record.text}
        at={{ ...record, target: String(record.target["name"]) }}
      />
    ),
  },
  {
    head: "Target",
    of: (record) => String(record.target["name"]),
    cell: (record) => (
      <>
        {String(record.target["name"])} <ClockMark clock={record.clock} />
      </>
    ),
  },
  {
    head: "Time",
    of: (record) => record.verified_s ?? record.cost_s ?? Infinity,
    cell: (record) => <Seconds value={record.verified_s ?? record.cost_s} disturbed={record.disturbed} />,
  },
  {
    head: "Rate",
    of: (record) => record.gflops ?? 0,
    cell: (record) => rate(record.gflops, record.unit),
  },
  {
    head: "Spread",
    of: (record) => record.spread ?? 0,
    cell: (record) => (record.spread === null ? "–" : `${(record.spread * 100).toFixed(0)} %`),
  },
  {
    head: "Error",
    of: (record) => record.error ?? "",
    cell: (record) => <span title={record.message}>{record.error ?? ""}</span>,
  },
  {
    head: "Config",
    of: (record) => config(record.config),
    cell: (record) => <ConfigText value={record.config} />,
  },
];

export default function Records() {
  const [workload, setWorkload] = useState("");
  const [target, setTarget] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [sorting, setSorting] = useState<{ head: string; down: boolean }>({ head: "Number", down: true });
  const [key] = useDebouncedValue(workload.trim(), 300);
  const targets = useTargets();
  const query = {
    limit: 200,
    sort: sorting.head === "Number" && !sorting.down ? ("oldest" as const) : ("newest" as const),
    ...(key && { workload: key }),
    ...(target && { target }),
    ...(error && { error: error as "any" | "none" }),
  };
  const records = useInfiniteQuery({
    queryKey: ["records", query],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/api/v1/records", {
          params: { query: { ...query, ...(pageParam && { after: pageParam }) } },
        }),
      ),
    getNextPageParam: (page) => (page.next === null ? undefined : Number(page.next)),
  });
  const items = records.data?.pages.flatMap((page) => page.items) ?? [];
  const column = COLUMNS.find((each) => each.head === sorting.head)!;
  const sorted = [...items].sort((one, other) => {
    const [first, last] = [column.of(one), column.of(other)];
    const order = first < last ? -1 : first > last ? 1 : 0;
    return sorting.down ? -order : order;
  });
  return (
    <Stack>
      <Title order={2} size="h3">
        Records
      </Title>
      <Group align="end">
        <TextInput
          label="Workload"
          placeholder="key, 16 digits"
          value={workload}
          onChange={(event) => setWorkload(event.currentTarget.value)}
        />
        <Select
          label="Target"
          placeholder="any"
          clearable
          searchable
          data={targets.data?.items.map((each) => each.name) ?? []}
          value={target}
          onChange={setTarget}
        />
        <Select
          label="Outcome"
          placeholder="any"
          clearable
          data={[
            { value: "none", label: "measured" },
            { value: "any", label: "failed" },
          ]}
          value={error}
          onChange={setError}
        />
        <Button
          component="a"
          variant="default"
          href={`/api/v1/targets/${target ?? "host"}/log?select=all`}
          download
        >
          Export log of {target ?? "host"}
        </Button>
      </Group>
      {records.error && <Failure error={records.error} />}
      {records.isPending && <Loading />}
      {records.data && items.length === 0 && (
        <Empty title="No such record">Records appear as jobs measure, or when a log is imported.</Empty>
      )}
      {items.length > 0 && (
        <DataTable
          label={
            sorting.head === "Number"
              ? "Records"
              : `Records: the newest ${items.length} by ${sorting.head.toLowerCase()}`
          }
          minWidth={1000}
          rows={sorted}
          keyOf={(record) => record.id}
          columns={COLUMNS}
          headOf={({ head }) => (
            <Table.Th
              key={head}
              aria-sort={sorting.head === head ? (sorting.down ? "descending" : "ascending") : "none"}
            >
              <UnstyledButton
                fw={600}
                fz="sm"
                onClick={() => setSorting({ head, down: sorting.head === head && !sorting.down })}
              >
                {head}
                {sorting.head === head && (sorting.down ? " ↓" : " ↑")}
              </UnstyledButton>
            </Table.Th>
          )}
        />
      )}
      <Group>
        {records.hasNextPage && (
          <Button
            variant="default"
            onClick={() => void records.fetchNextPage()}
            loading={records.isFetchingNextPage}
          >
            More
          </Button>
        )}
        <Anchor component={Link} href="/best" size="sm">
          Only the best of a model
        </Anchor>
      </Group>
    </Stack>
  );
}
