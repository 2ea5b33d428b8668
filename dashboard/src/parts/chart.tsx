/** A chart by ECharts, drawn on a canvas: ten thousand points stay smooth. It follows size and theme. */
import { Box, useComputedColorScheme } from "@mantine/core";
import { BarChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { useEffect, useRef } from "react";

use([
  BarChart,
  LineChart,
  ScatterChart,
  HeatmapChart,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
]);

/** For lines beside a series: ECharts cuts their values to two decimals, and seconds have none there. */
export const DIGITS = 12;

/** `label` says in words what the chart shows: a canvas tells a screen reader nothing. */
export function Chart({
  option,
  label,
  height = 320,
}: {
  option: EChartsCoreOption;
  label: string;
  height?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType>(null);
  const scheme = useComputedColorScheme();
  useEffect(() => {
    const made = init(box.current!, scheme === "dark" ? "dark" : null);
    chart.current = made;
    const resized = new ResizeObserver(() => made.resize());
    resized.observe(box.current!);
    return () => {
      resized.disconnect();
      made.dispose();
    };
  }, [scheme]);
  useEffect(() => {
    // The policy of the page forbids styles in markup, which a tooltip in HTML would bring.
    const tooltip = { renderMode: "richText", ...(option["tooltip"] as object | undefined) };
    chart.current?.setOption({ backgroundColor: "transparent", animation: false, ...option, tooltip }, true);
  }, [option, scheme]);
  return <Box ref={box} h={height} role="img" aria-label={label} />;
}
