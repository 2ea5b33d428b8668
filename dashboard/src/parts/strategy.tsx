/** How a job chooses configs: one of the strategies that the coordinator has, those of plug-ins too. */
import { Select } from "@mantine/core";

import { useStrategies } from "../api/queries";

export const USUAL_STRATEGY = "model";

export function StrategyField({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  const known = useStrategies().data?.items ?? [];
  return (
    <Select
      label="Strategy"
      description={known.find(({ name }) => name === value)?.about || "how configs are chosen"}
      data={known.length ? known.map(({ name }) => name) : [value]}
      value={value}
      allowDeselect={false}
      onChange={(name) => onChange(name ?? USUAL_STRATEGY)}
    />
  );
}
