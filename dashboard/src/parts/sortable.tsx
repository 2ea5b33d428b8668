/** The head of a column that sorts: a button that says which way. */
import { Table, UnstyledButton } from "@mantine/core";

export function SortHead({
  head,
  down,
  onSort,
  miw,
}: {
  head: string;
  /** Which way it is sorted by this; null when by another. */
  down: boolean | null;
  onSort: () => void;
  miw?: number | undefined;
}) {
  const sorted = down === null ? "none" : down ? "descending" : "ascending";
  return (
    <Table.Th aria-sort={sorted} {...(miw === undefined ? {} : { miw })}>
      <UnstyledButton fw={600} fz="sm" onClick={onSort}>
        {head}
        {down !== null && (down ? " ↓" : " ↑")}
      </UnstyledButton>
    </Table.Th>
  );
}
