/** A fact of a description list: its name above what it is. */
import { Text } from "@mantine/core";
import type { ReactNode } from "react";

export function Fact({ name, value }: { name: string; value: ReactNode }) {
  return (
    <div>
      <Text component="dt" size="xs" c="dimmed">
        {name}
      </Text>
      <Text component="dd" size="sm" m={0}>
        {value}
      </Text>
    </div>
  );
}
