/** Measurements: found by words, filtered, sorted by the server, exported as they are filtered. */
import { Anchor, Button, Group, Select, Stack, Table, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import type { TuningRecord } from "../api/client";
import { api, data } from "../api/client";
import type { paths } from "../api/schema";
import { ago, rate } from "../format";
import { ClockMark, Seconds } from "../parts/clock";
import { Finder } from "../parts/finder";
import { Notice } from "../parts/notice";
import { SortHead } from "../parts/sortable";
import { Empty, Failure, Loading } from "../parts/states";
import type { Column } from "../parts/table";
import { ConfigText, DataTable, WorkloadLink, workloadPath } from "../parts/table";
import { useAddress } from "../parts/url-state";
import { useTitle } from "../tab";

type Query = NonNullable<paths["/api/v1/records"]["get"]["parameters"]["query"]>;
type Sort = NonNullable<Query["sort"]>;
type Sorted = Column<TuningRecord> & { sorts?: [down: Sort, up: Sort] };

const whereOf = (record: TuningRecord) => ({ ...record, target: String(record.target["name"]) });
const COLUMNS: Sorted[] = [
  {
    head: "Number",
    sorts: ["newest", "oldest"],
    cell: (record) => (
      <Anchor
        component={Link}
        size="sm"
        title="Its loops, caches and assembly"
        href={workloadPath(record.workload_key, whereOf(record), record.error ? null : record.id)}
      >
        {record.id}
      </Anchor>
    ),
  },
  {
    head: "Workload",
    cell: (record) => <WorkloadLink workload={record.workload_key} text={record.text} at={whereOf(record)} />,
  },
  {
    head: "Target",
    cell: (record) => (
      <>
        {String(record.target["name"])}
        {record.threads > 1 && `, ${record.threads} threads`} <ClockMark clock={record.clock} />
      </>
    ),
  },
  {
    head: "Time",
    sorts: ["fastest", "slowest"],
    cell: (record) =>
      record.error ? (
        <Outcome record={record} />
      ) : (
        <Seconds value={record.verified_s ?? record.cost_s} disturbed={record.disturbed} />
      ),
  },
  {
    head: "Rate",
    sorts: ["highest_rate", "lowest_rate"],
    cell: (record) => rate(record.gflops, record.unit),
  },
  {
    head: "Spread",
    cell: (record) => (record.spread === null ? "–" : `${(record.spread * 100).toFixed(0)} %`),
  },
  { head: "Config", cell: (record) => <ConfigText value={record.config} /> },
  { head: "Measured", cell: (record) => (record.created ? ago(record.created) : "–") },
];

function Outcome({ record }: { record: TuningRecord }) {
  return (
    <>
      <Text size="sm" c="var(--failed)" fw={600}>
        <span aria-hidden="true">✕</span> {record.error?.replaceAll("_", " ")}
      </Text>
      <Text size="xs" c="dimmed" lineClamp={2} title={record.message} maw={280}>
        {record.message}
      </Text>
    </>
  );
}

const OUTCOMES = [
  { value: "none", label: "measured" },
  { value: "any", label: "failed" },
  { value: "wrong_result", label: "failed: wrong result" },
  { value: "build_error", label: "failed: build error" },
  { value: "run_timeout", label: "failed: ran too long" },
  { value: "crash", label: "failed: crash" },
  { value: "withdrawn", label: "withdrawn" },
];
const FILTERS = ["search", "workload", "target", "job", "error"] as const;

export default function Records() {
  useTitle("Records");
  const [asked, change] = useAddress();
  const filter = Object.fromEntries(
    FILTERS.flatMap((name) => (asked.get(name) ? [[name, asked.get(name)!]] : [])),
  ) as Query;
  const sort = (asked.get("sort") ?? "newest") as Sort;
  const records = useInfiniteQuery({
    queryKey: ["records", filter, sort],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/api/v1/records", {
          params: { query: { ...filter, sort, limit: 100, ...(pageParam && { after: pageParam }) } },
        }),
      ),
    getNextPageParam: (page) => (page.next === null ? undefined : Number(page.next)),
  });
  const items = records.data?.pages.flatMap((page) => page.items) ?? [];
  const leftOut = records.data?.pages.reduce((sum, page) => sum + page.left_out, 0) ?? 0;
  const file = (format: "log" | "csv") =>
    `/api/v1/records/log?${new URLSearchParams({ ...(filter as Record<string, string>), format })}`;
  const pinned = ["workload", "job"].filter((name) => asked.has(name));
  return (
    <Stack>
      <Title order={2} size="h3">
        Records
      </Title>
      <Group align="end">
        <Finder where="in the workload or the kernel's name" />
        <Select
          label="Outcome"
          placeholder="any"
          clearable
          clearButtonProps={{ "aria-label": "Any outcome" }}
          data={OUTCOMES}
          value={asked.get("error")}
          // What failed has no time to be sorted by.
          onChange={(error) => change({ error, ...(error && error !== "none" && { sort: null }) })}
        />
        <Group gap="xs">
          <Button component="a" variant="default" href={file("log")} download>
            ⤓ Log
          </Button>
          <Button component="a" variant="default" href={file("csv")} download>
            ⤓ CSV
          </Button>
        </Group>
        {pinned.map((name) => (
          <Button key={name} variant="light" onClick={() => change({ [name]: null })}>
            {name} {asked.get(name)} ✕
          </Button>
        ))}
      </Group>
      {records.error && <Failure error={records.error} />}
      {records.isPending && <Loading />}
      {records.data && items.length === 0 && (
        <Empty title="No such record">
          {Object.keys(filter).length
            ? "Nothing that was measured has all that is asked for."
            : "Records appear as jobs measure, or when a log is imported."}
        </Empty>
      )}
      {leftOut > 0 && (
        <Notice kind="warning" title={`${leftOut} of these cannot be read`}>
          They are damaged and not listed. <code>tilefleet forget --damaged</code> deletes them.
        </Notice>
      )}
      {items.length > 0 && (
        <DataTable
          label="Records"
          minWidth={1000}
          rows={items}
          keyOf={(record) => record.id}
          columns={COLUMNS}
          headOf={(column) => <Head key={column.head} column={column} sort={sort} onSort={change} />}
        />
      )}
      {sort !== "newest" && sort !== "oldest" && (
        <Text size="sm" c="dimmed">
          What failed has no time and is not listed. What was timed inside a built model as well is ordered by
          its place there.
        </Text>
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

function Head({
  column,
  sort,
  onSort,
}: {
  column: Sorted;
  sort: Sort;
  onSort: (changes: { sort: string }) => void;
}) {
  if (!column.sorts) return <Table.Th>{column.head}</Table.Th>;
  const [first, second] = column.sorts;
  const on = column.sorts.indexOf(sort);
  return (
    <SortHead
      head={column.head}
      // Of times the first way is up: the fastest.
      down={on < 0 ? null : (on === 0) !== (first === "fastest")}
      onSort={() => onSort({ sort: sort === first ? second : first })}
    />
  );
}
