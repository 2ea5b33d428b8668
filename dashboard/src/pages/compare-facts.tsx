/** What differs between jobs and builds, and how much faster each is than the first. */
import { Switch, Table } from "@mantine/core";
import { useState } from "react";

import { StateBadge } from "../parts/badges";
import { Notice } from "../parts/notice";
import { Section } from "../parts/section";
import type { Fact, Side } from "./compare-side";
import { FACTS, comparable } from "./compare-side";
import { Dot } from "./job-charts";

/** A side in its colour. */
export type Shown = Side & { colour: string };

export function Facts({ sides }: { sides: Shown[] }) {
  const [all, showAll] = useState(false);
  const differs = (fact: Fact) =>
    new Set(sides.map(({ facts }) => facts[fact]).filter((each) => each !== undefined)).size > 1;
  const known = FACTS.filter((fact) => sides.some(({ facts }) => facts[fact] !== undefined));
  const shown = known.filter((fact) => all || sides.length === 1 || differs(fact));
  return (
    <Section
      title="What differs"
      beside={
        sides.length > 1 && (
          <Switch
            ml="auto"
            size="xs"
            label="also what is the same"
            checked={all}
            onChange={(event) => showAll(event.currentTarget.checked)}
          />
        )
      }
    >
      <Table.ScrollContainer
        minWidth={200 + 160 * sides.length}
        scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "group", "aria-label": "What differs" } }}
      >
        <Table verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={140}>Fact</Table.Th>
              {sides.map(({ id, colour, title }) => (
                <Table.Th key={id}>
                  <Dot colour={colour} /> {title}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((fact) => (
              <Table.Tr key={fact}>
                <Table.Th scope="row" fw={500}>
                  {fact}
                </Table.Th>
                {sides.map(({ id, facts }) => (
                  <Table.Td key={id} fw={sides.length > 1 && differs(fact) ? 600 : 400}>
                    {fact === "State" && facts.State ? (
                      <StateBadge state={facts.State} />
                    ) : (
                      (facts[fact] ?? "–")
                    )}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
            {sides.length > 1 && (
              <Table.Tr>
                <Table.Th scope="row" fw={500}>
                  Against the first
                </Table.Th>
                {sides.map((side, at) => (
                  <Table.Td key={side.id} fw={600}>
                    {at === 0 ? "–" : against(sides[0]!, side)}
                  </Table.Td>
                ))}
              </Table.Tr>
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Section>
  );
}

/** How many times as fast as the first, where that is more than the noise; like with like. */
function against(first: Side, other: Side): string {
  if (!comparable(first, other)) return "–, by another clock";
  const [one, two] = [first.time, other.time];
  // A job's estimate has in it what its own build was seen to do: a build's has not.
  if (!one || !two || (first.href === null) !== (other.href === null)) return "–";
  if (one.delivered !== two.delivered) {
    if (!first.estimated_ms || !other.estimated_ms) return "–";
    return `${said(first.estimated_ms / other.estimated_ms, 0.01)}, estimated`;
  }
  return `${said(one.ms / two.ms, Math.max(0.01, one.noise + two.noise))}${one.delivered ? "" : ", estimated"}`;
}

/** Why some have no ratio; nothing where all are by the clock of the first. */
export function OtherClocks({ sides }: { sides: Side[] }) {
  const [first, ...others] = sides;
  const apart = others.filter((side) => !comparable(first!, side));
  if (apart.length === 0) return null;
  const named = ({ said, clock }: Side) => `${said} (${clock ?? "clock not known"})`;
  return (
    <Notice kind="info" title="Not all of them are by the same clock">
      Times of two clocks are never compared, so {apart.map(named).join(", ")}{" "}
      {apart.length > 1 ? "have" : "has"} no ratio against {named(first!)}.
    </Notice>
  );
}

/** 1.23 x as fast, or that there is no difference beyond the noise. */
export function said(ratio: number, noise: number): string {
  if (Math.abs(ratio - 1) <= noise) return "the same within the noise";
  return ratio > 1 ? `${ratio.toFixed(2)}\u00a0x as fast` : `${(1 / ratio).toFixed(2)}\u00a0x the time`;
}
