/** What surrounds every page: name, navigation, theme, and whether the coordinator is there. */
import {
  ActionIcon,
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
import { Notice } from "./parts/notice";
import { useJobNotices } from "./notices";
import { Loading, NothingHere } from "./parts/states";
import { Overview } from "./pages/overview";

// Charts are large: pages that draw them come when they are opened.
const JobPage = lazy(() => import("./pages/job"));
const Wall = lazy(() => import("./pages/wall"));
const WorkloadPage = lazy(() => import("./pages/workload"));

/** What the navigation lists. A new page is a file in `pages`, a line here and its path in dashboard_page.py. */
const PAGES = [
  { path: "/", label: "Overview", page: Overview },
  { path: "/jobs", label: "Jobs", page: lazy(() => import("./pages/jobs")) },
  { path: "/compare", label: "Compare", page: lazy(() => import("./pages/compare")) },
  { path: "/submit", label: "Submit a model", page: lazy(() => import("./pages/submit")) },
  { path: "/boards", label: "Boards", page: lazy(() => import("./pages/boards")) },
  { path: "/workloads", label: "Workloads", page: lazy(() => import("./pages/workloads")) },
  { path: "/records", label: "Records", page: lazy(() => import("./pages/records")) },
  { path: "/best", label: "Best configs", page: lazy(() => import("./pages/best")) },
];

export function Shell() {
  useJobNotices();
  return (
    <Switch>
      <Route path="/wall">
        <Suspense fallback={<Loading />}>
          <Wall />
        </Suspense>
      </Route>
      <Route>
        <Framed />
      </Route>
    </Switch>
  );
}

/** A page inside name and navigation. */
function Framed() {
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
          <Group gap="sm" ml="auto">
            <Text size="sm" c="dimmed" visibleFrom="sm">
              {version.data ? `version ${version.data.version}` : ""}
            </Text>
            <ThemeSwitch />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs">
        {PAGES.map(({ path, label }) => (
          <NavLink
            key={path}
            component={Link}
            href={path}
            label={label}
            active={location === path || location.startsWith(`${path}/`)}
            aria-current={location === path ? "page" : undefined}
            onClick={close}
          />
        ))}
        <NavLink href="/docs" label="API" mt="auto" />
      </AppShell.Navbar>
      <AppShell.Main>
        {version.isError && (
          <Notice kind="error" title="The coordinator does not answer">
            What is shown is what was known last. It is asked again every few seconds; start it with{" "}
            <code>tilefleet up</code>.
          </Notice>
        )}
        <Suspense fallback={<Loading />}>
          <Switch>
            {PAGES.map(({ path, page }) => (
              <Route key={path} path={path} component={page} />
            ))}
            <Route path="/jobs/:id">{({ id }) => <JobPage id={Number(id)} />}</Route>
            <Route path="/workloads/:key">{({ key }) => <WorkloadPage workload={key} />}</Route>
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
