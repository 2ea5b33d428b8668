/** Words and a target to find workloads or records by, kept in the address. */
import { Select, TextInput } from "@mantine/core";

import { useTargets } from "../api/queries";
import { useAddress, useTyped } from "./url-state";

/** `where` says what the words are looked for in. */
export function Finder({ where }: { where: string }) {
  const [asked, change] = useAddress();
  const [typed, type] = useTyped("search");
  const targets = useTargets();
  return (
    <>
      <TextInput
        label="Words"
        placeholder="conv 3x3"
        description={where}
        value={typed}
        onChange={(event) => type(event.currentTarget.value)}
      />
      <Select
        label="Target"
        placeholder="any"
        clearable
        clearButtonProps={{ "aria-label": "Any target" }}
        searchable
        data={targets.data?.items.map((each) => each.name) ?? []}
        value={asked.get("target")}
        onChange={(target) => change({ target })}
      />
    </>
  );
}
