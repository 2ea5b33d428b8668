/** A part of a page under its own heading, and what is chosen in the heading's line. */
import { Group, Select, Title, type SelectProps } from "@mantine/core";
import { useId, type ReactNode } from "react";

type Props = { title: string; order?: 2 | 3; beside?: ReactNode; children: ReactNode };

export function Section({ title, order = 3, beside, children }: Props) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <Group align="end" gap="xs" mb={order === 2 ? "sm" : 0}>
        <Title order={order} size={order === 2 ? "h4" : "h5"} id={id}>
          {title}
        </Title>
        {beside}
      </Group>
      {children}
    </section>
  );
}

export const Choice = (props: SelectProps) => <Select size="xs" allowDeselect={false} {...props} />;
