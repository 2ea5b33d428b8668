/** What surrounds every page: name, navigation, theme, and whether the coordinator is there. */
import {
  ActionIcon,
  Alert,
  AppShell,
  Burger,
  Group,
  NavLink,
  Text,
  Title,
  useMantineColorScheme,
} from "@mantine/core";
import { useComputedColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Suspense, lazy } from "react";
import { Link, Route, Switch, useLocation } from "wouter";

import { useVersion } from "./api/queries";
import { Loading, NothingHere } from "./parts/states";
import { Overview } from "./pages/overview";

// Charts are large: pages that draw them come when they are opened.
const Submit = lazy(() => import("./pages/submit"));
const JobPage = lazy(() => import("./pages/job"));
const WorkloadPage = lazy(() => import("./pages/workload"));
const Boards = lazy(() => import("./pages/boards"));
const Records = lazy(() => import("./pages/records"));
const Best = lazy(() => import("./pages/best"));

const PAGES = [
  { path: "/", label: "Overview" },
  { path: "/submit", label: "Submit a model" },
  { path: "/boards", label: "Boards" },
  { path: "/records", label: "Records" },
  { path: "/best", label: "Best configs" },
];

export function Shell() {
  const [open, { toggle, close }] = useDisclosure();
  const [location] = useLocation();
  const version = useVersion();
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 200, breakpoint: "sm", collapsed: { mobile: !open } }}
      padding="md"
    >
      <AppShell.Header>
        <Group h="100%" px="md" gap="sm">
          <Burger opened={open} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
          <img src="/icon.svg" alt="" width={24} height={24} />
          <Title order={1} size="h4">
            Tilefleet
          </Title>
          <Text size="sm" c="dimmed" ml="auto" visibleFrom="sm">
            {version.data ? `version ${version.data.version}` : ""}
          </Text>
          <ThemeSwitch />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs">
        {PAGES.map(({ path, label }) => (
          <NavLink
            key={path}
            component={Link}
            href={path}
            label={label}
            active={location === path}
            aria-current={location === path ? "page" : undefined}
            onClick={close}
          />
        ))}
        <NavLink href="/docs" label="API" mt="auto" />
      </AppShell.Navbar>
      <AppShell.Main>
        {version.isError && (
          <Alert color="red" title="The coordinator does not answer" role="alert" mb="md">
            What is shown is what was known last. It is asked again every few seconds; start it with{" "}
            <code>tilefleet up</code>.
          </Alert>
        )}
        <Suspense fallback={<Loading />}>
          <Switch>
            <Route path="/" component={Overview} />
            <Route path="/submit" component={Submit} />
            <Route path="/jobs/:id">{({ id }) => <JobPage id={Number(id)} />}</Route>
            <Route path="/workloads/:key">{({ key }) => <WorkloadPage workload={key} />}</Route>
            <Route path="/boards" component={Boards} />
            <Route path="/records" component={Records} />
            <Route path="/best" component={Best} />
            <Route>
              <NothingHere />
            </Route>
          </Switch>
        </Suspense>
      </AppShell.Main>
    </AppShell>
  );
}

function ThemeSwitch() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme();
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <ActionIcon variant="default" aria-label={`Use the ${other} theme`} onClick={() => setColorScheme(other)}>
      {scheme === "dark" ? "☀" : "☾"}
    </ActionIcon>
  );
}
