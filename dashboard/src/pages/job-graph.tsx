/** The model as a build sees it: a map of its layers, each coloured by what it takes or what it gained. */
import { ActionIcon, Box, Group, SegmentedControl, Text } from "@mantine/core";
import dagre from "@dagrejs/dagre";
import type { PointerEvent } from "react";
import { memo, useEffect, useMemo, useRef, useState } from "react";

import type { GraphNode, Job, Task } from "../api/client";
import { useGraph } from "../api/job-queries";
import { percent, seconds } from "../format";
import { Section } from "../parts/section";
import { Empty, Loaded } from "../parts/states";
import type { Chosen } from "./job-charts";
import classes from "./job-graph.module.css";
import type { Layer } from "./job-layers";
import { layersOf } from "./job-layers";

const HEIGHT = 420;
const MOST_LINES = 24;
/** Beside and between lines, for what leads from one to another. */
const [MARGIN, GAP] = [24, 24];
const [WIDE, TALL] = [168, 40];
const [SMALL_WIDE, SMALL_TALL] = [88, 26];
/** Above so many nodes the order of ranks that looks best takes too long to find. */
const MANY = 300;

type Placed = GraphNode & { x: number; y: number; width: number; height: number };
type Plan = { nodes: Placed[]; edges: string[]; width: number; height: number };
type By = "time" | "gain";

export function Graph({ job, tasks, chosen }: { job: Job; tasks: Task[]; chosen: Chosen }) {
  const graph = useGraph(job);
  const [by, setBy] = useState<By>("time");
  if (job.model === null) return null;
  return (
    <Section
      title="The model"
      beside={
        <SegmentedControl
          size="xs"
          ml="auto"
          aria-label="What the colours show"
          data={[
            { value: "time", label: "share of time" },
            { value: "gain", label: "gain" },
          ]}
          value={by}
          onChange={(value) => setBy(value as By)}
        />
      }
    >
      <Loaded query={graph}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="Too large to be drawn">The table of its layers has all of them.</Empty>
          ) : (
            <Map nodes={items} tasks={tasks} by={by} chosen={chosen} />
          )
        }
      </Loaded>
    </Section>
  );
}

/** Laid out from left to right, and wrapped into as many lines as fill the box best, like text. */
function planOf(nodes: GraphNode[], room: number): Plan {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 14,
    ranksep: 26,
    ranker: nodes.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach((node, at) => {
    const [width, height] = node.workload ? [WIDE, TALL] : [SMALL_WIDE, SMALL_TALL];
    graph.setNode(String(at), { width, height });
    for (const read of node.reads) graph.setEdge(String(read), String(at));
  });
  dagre.layout(graph);
  const { width: length = 1, height: line = 1 } = graph.graph();
  const placed = nodes.map((_, at) => graph.node(String(at)) as Box4);
  const columns = columnsOf(placed);
  const candidates = Array.from({ length: MOST_LINES }, (_, at) => wrapped(columns, length / (at + 1)));
  const scaleOf = ({ starts, width }: Wrapped) =>
    Math.min(room / (width + 2 * MARGIN), HEIGHT / (starts.length * (line + GAP)), 1);
  const { starts, width } = candidates.reduce((one, other) => (scaleOf(other) > scaleOf(one) ? other : one));
  const lineOf = (x: number) => starts.findLastIndex((start) => start <= x + 0.5);
  const moved = ({ x, y }: Spot) => {
    const at = Math.max(0, lineOf(x));
    return { x: x - starts[at]! + MARGIN, y: y + at * (line + GAP) + GAP / 2 };
  };
  const right = width + 2 * MARGIN;
  return {
    nodes: nodes.map((node, at) => ({ ...node, ...placed[at]!, ...moved(placed[at]!) })),
    edges: graph.edges().map(({ v, w }) => {
      const [from, to] = [placed[Number(v)]!, placed[Number(w)]!];
      if (lineOf(from.x) === lineOf(to.x)) return pathOf(graph.edge(v, w).points.map(moved));
      const [start, end] = [moved(from), moved(to)];
      // Around the end of its line, and in from the left of the other.
      const between = end.y - to.y + 4;
      return pathOf([
        { x: start.x + from.width / 2, y: start.y },
        { x: right - 8, y: start.y },
        { x: right - 8, y: between },
        { x: 8, y: between },
        { x: 8, y: end.y },
        { x: end.x - to.width / 2, y: end.y },
      ]);
    }),
    width: right,
    height: starts.length * (line + GAP),
  };
}

type Spot = { x: number; y: number };
type Box4 = Spot & { width: number; height: number };
type Column = { from: number; to: number };
type Wrapped = { starts: number[]; width: number };

/** From where to where each rank goes. */
function columnsOf(placed: Box4[]): Column[] {
  const found: Column[] = [];
  for (const { x, width } of [...placed].sort((one, other) => one.x - other.x)) {
    const last = found.at(-1);
    if (last && x - width / 2 < last.to) last.to = Math.max(last.to, x + width / 2);
    else found.push({ from: x - width / 2, to: x + width / 2 });
  }
  return found;
}

/** Where lines begin that are as long as `most` or what the widest column takes. */
function wrapped(columns: Column[], most: number): Wrapped {
  const starts = [columns[0]?.from ?? 0];
  let width = 0;
  for (const { from, to } of columns) {
    if (to - starts.at(-1)! > most + 1 && from > starts.at(-1)!) starts.push(from);
    width = Math.max(width, to - starts.at(-1)!);
  }
  return { starts, width };
}

function pathOf(points: Spot[]): string {
  return points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

type View = { x: number; y: number; scale: number };

function Map({ nodes, tasks, by, chosen }: { nodes: GraphNode[]; tasks: Task[]; by: By; chosen: Chosen }) {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useEffect(() => setRoom(box.current!.clientWidth), []);
  const plan = useMemo(() => planOf(nodes, room || 1000), [nodes, room]);
  const layers = useMemo(() => layersOf(tasks), [tasks]);
  const [view, setView] = useState<View | null>(null);
  const drag = useRef<{ x: number; y: number } | null>(null);
  const dragged = useRef(false);
  const fit = () => {
    const width = box.current!.clientWidth;
    const scale = Math.min(width / plan.width, HEIGHT / plan.height, 1);
    setView({ x: (width - plan.width * scale) / 2, y: (HEIGHT - plan.height * scale) / 2, scale });
  };
  useEffect(fit, [plan]);
  // What was chosen elsewhere is brought into view, large enough to be read; once, not at each new figure.
  const looked = tasks.find(({ id }) => id === chosen.task)?.workload_key;
  useEffect(() => {
    const node = looked && plan.nodes.find(({ workload }) => workload === looked);
    if (!node) return;
    setView((known) => {
      const scale = Math.max(known?.scale ?? 1, 0.7);
      return { scale, x: box.current!.clientWidth / 2 - node.x * scale, y: HEIGHT / 2 - node.y * scale };
    });
  }, [looked, plan]);
  const zoom = (factor: number, at?: { x: number; y: number }) =>
    setView((known) => {
      if (!known) return known;
      const { x, y } = at ?? { x: box.current!.clientWidth / 2, y: HEIGHT / 2 };
      const scale = Math.min(4, Math.max(0.02, known.scale * factor));
      const ratio = scale / known.scale;
      return { scale, x: x - (x - known.x) * ratio, y: y - (y - known.y) * ratio };
    });
  useEffect(() => {
    const element = box.current!;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const { left, top } = element.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top });
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);
  const move = (x: number, y: number) =>
    setView((known) => known && { ...known, x: known.x + x, y: known.y + y });
  const keys: Record<string, () => void> = {
    ArrowLeft: () => move(60, 0),
    ArrowRight: () => move(-60, 0),
    ArrowUp: () => move(0, 40),
    ArrowDown: () => move(0, -40),
    "+": () => zoom(1.3),
    "-": () => zoom(1 / 1.3),
    "0": fit,
  };
  const onMove = (event: PointerEvent) => {
    if (!drag.current) return;
    const [x, y] = [event.clientX - drag.current.x, event.clientY - drag.current.y];
    dragged.current ||= Math.abs(x) + Math.abs(y) > 2;
    if (!dragged.current) return; // a hand that shakes still clicks
    drag.current = { x: event.clientX, y: event.clientY };
    move(x, y);
  };
  const products = nodes.filter(({ workload }) => workload).length;
  return (
    <>
      <Box
        ref={box}
        className={classes.map}
        h={HEIGHT}
        role="group"
        aria-label={`Map of the model: ${nodes.length} nodes, ${products} of them tuned layers; arrow keys, plus, minus and 0 move it`}
        tabIndex={0}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          act();
        }}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY };
          dragged.current = false;
        }}
        // What ends a drag is no click at the layer under it.
        onClickCapture={(event) => {
          if (dragged.current) event.stopPropagation();
          dragged.current = false;
        }}
        onPointerMove={onMove}
        onPointerUp={() => (drag.current = null)}
        onPointerLeave={() => (drag.current = null)}
      >
        <svg width="100%" height={HEIGHT} aria-hidden="true">
          {view && (
            <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
              <Drawing plan={plan} layers={layers} by={by} chosen={chosen} />
            </g>
          )}
        </svg>
      </Box>
      <Group gap="xs" align="flex-start">
        <Text size="sm" c="dimmed">
          {by === "time"
            ? "The stronger a layer's colour, the larger its share of the time."
            : "The stronger a layer's colour, the more times as fast as its untuned config it is."}{" "}
          A click looks at a layer in the charts; drag to move, Ctrl and the wheel to zoom.
        </Text>
        <Group gap={4} ml="auto" wrap="nowrap">
          {(
            [
              ["+", "Closer", () => zoom(1.5)],
              ["−", "Farther", () => zoom(1 / 1.5)],
              ["⤢", "The whole model", fit],
            ] as const
          ).map(([sign, label, act]) => (
            <ActionIcon
              key={label}
              variant="default"
              size="sm"
              aria-label={label}
              title={label}
              onClick={act}
            >
              {sign}
            </ActionIcon>
          ))}
        </Group>
      </Group>
    </>
  );
}

/** Redrawn when what it shows changes, not when it moves. */
const Drawing = memo(function Drawing({
  plan,
  layers,
  by,
  chosen,
}: {
  plan: Plan;
  layers: Layer[];
  by: By;
  chosen: Chosen;
}) {
  const byKey = new globalThis.Map(layers.map((layer) => [layer.workload_key, layer]));
  const value = (layer: Layer | undefined) => {
    if (!layer) return 0;
    if (by === "gain") return layer.gain ? Math.log(Math.max(1, layer.gain)) : 0;
    return layer.part === null ? 0 : layer.part / layer.weight;
  };
  const most = Math.max(...layers.map(value), 1e-9);
  return (
    <>
      {plan.edges.map((path, at) => (
        <path key={at} d={path} className={classes.edge} />
      ))}
      {plan.nodes.map((node, at) => {
        const layer = byKey.get(node.workload);
        const strength = Math.round(100 * Math.sqrt(value(layer) / most));
        const said = layer ? saidOf(layer, by) : "";
        return (
          <g
            key={at}
            transform={`translate(${node.x - node.width / 2} ${node.y - node.height / 2})`}
            className={layer ? classes.layer : classes.node}
            data-chosen={layer !== undefined && layer.id === chosen.task}
            data-key={node.workload || undefined}
            onClick={() => layer && chosen.choose(layer.id === chosen.task ? null : layer.id)}
          >
            <title>{`${node.name}\n${node.op}${layer ? `\n${seconds(layer.best_s)} each, ${said}` : ""}`}</title>
            <rect
              width={node.width}
              height={node.height}
              rx={5}
              style={
                layer && {
                  fill: `color-mix(in srgb, var(--${by}) ${strength}%, var(--mantine-color-body))`,
                }
              }
            />
            <text x={node.width / 2} y={layer ? 16 : node.height / 2 + 4}>
              {cut(node.op, layer ? 25 : 13)}
            </text>
            {layer && (
              <text x={node.width / 2} y={32} className={classes.figure}>
                {seconds(layer.best_s)} · {said}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
});

function saidOf(layer: Layer, by: By): string {
  if (by === "gain") return layer.gain === null ? "no gain known" : `${layer.gain.toFixed(2)} x`;
  return layer.part === null ? "–" : percent(layer.part / layer.weight);
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
