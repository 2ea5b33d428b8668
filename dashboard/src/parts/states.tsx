/** The states a page can be in besides showing what it is for. */
import { Anchor, Center, Loader, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { ApiError } from "../api/client";
import { useTitle } from "../tab";
import { Notice } from "./notice";

export function Loading() {
  return (
    <Center mih={120}>
      <Loader role="img" aria-label="Loading" />
    </Center>
  );
}

export function Failure({ error }: { error: Error }) {
  const gone = error instanceof ApiError && error.status === 404;
  return (
    <Notice kind="error" title={gone ? "There is no such thing" : "That did not work"}>
      {error.message}
    </Notice>
  );
}

export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap="xs" py="lg">
      <Title order={3} size="h5">
        {title}
      </Title>
      <Text c="dimmed">{children}</Text>
    </Stack>
  );
}

export function NothingHere() {
  useTitle("No such page");
  return (
    <Empty title="There is no such page">
      <Anchor component={Link} href="/">
        To the overview
      </Anchor>
    </Empty>
  );
}

/** What a query has: its data by `children`, or the state it is in. */
export function Loaded<T>({
  query,
  children,
}: {
  query: { data: T | undefined; error: Error | null };
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  return query.error ? <Failure error={query.error} /> : <Loading />;
}
