/** A way to any workload: found by words, those measured last first. */
import { Button, Group, Stack, Text, Title } from "@mantine/core";

import { useWorkloads } from "../api/queries";
import { millions } from "../format";
import { Finder } from "../parts/finder";
import { Empty, Failure, Loading } from "../parts/states";
import { DataTable, WorkloadLink } from "../parts/table";
import { useAddress } from "../parts/url-state";
import { useTitle } from "../tab";

export default function Workloads() {
  useTitle("Workloads");
  const [asked] = useAddress();
  const target = asked.get("target");
  const found = useWorkloads(asked.get("search") ?? "", target);
  const items = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <Title order={2} size="h3">
        Workloads
      </Title>
      <Group align="end">
        <Finder where="of its text; or its key" />
        <Text size="sm" c="dimmed" role="status">
          {found.data ? `${found.data.pages[0]!.total} found` : ""}
        </Text>
      </Group>
      {found.error && <Failure error={found.error} />}
      {found.isPending && <Loading />}
      {found.data && items.length === 0 && (
        <Empty title="No such workload">
          {asked.size
            ? "Nothing that was measured has these words."
            : "Workloads appear as jobs measure them."}
        </Empty>
      )}
      {items.length > 0 && (
        <DataTable
          label="Workloads"
          minWidth={560}
          rows={items}
          keyOf={(each) => each.key}
          columns={[
            {
              head: "Workload",
              cell: (each) => (
                <WorkloadLink
                  workload={each.key}
                  text={each.text}
                  at={target && each.targets.includes(target) ? { target } : null}
                />
              ),
            },
            { head: "Operations", cell: (each) => millions(each.flops, each.unit) },
            { head: "Records", cell: (each) => each.records },
            { head: "Measured on", cell: (each) => each.targets.join(", ") },
            {
              head: "Key",
              cell: (each) => (
                <Text size="xs" ff="monospace" c="dimmed">
                  {each.key}
                </Text>
              ),
            },
          ]}
        />
      )}
      {found.hasNextPage && (
        <Button
          variant="default"
          w="fit-content"
          onClick={() => void found.fetchNextPage()}
          loading={found.isFetchingNextPage}
        >
          More
        </Button>
      )}
    </Stack>
  );
}
