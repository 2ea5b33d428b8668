/** A chart by ECharts, drawn on a canvas: ten thousand points stay smooth. It follows size and theme, and can be
 * saved as a picture or as figures. */
import { Box, UnstyledButton, useComputedColorScheme } from "@mantine/core";
import { BarChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  ParallelComponent,
  TitleComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { useEffect, useRef } from "react";

import { background, themeOf } from "./chart-colours";
import type { Figures } from "./chart-files";
import { csv, figuresOf, fileName, picture, save } from "./chart-files";
import classes from "./chart.module.css";

use([
  BarChart,
  LineChart,
  ScatterChart,
  HeatmapChart,
  ParallelChart,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  ParallelComponent,
  TitleComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
]);

/** For lines beside a series: ECharts cuts their values to two decimals, and seconds have none there. */
export const DIGITS = 12;

/** To look at a part: a bar below, and the wheel with Ctrl, so that the page still scrolls without. */
export const ZOOM = [
  { type: "slider", height: 16, bottom: 4, brushSelect: false },
  { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
];

type Props = {
  option: EChartsCoreOption;
  /** Says in words what the chart shows: a canvas tells a screen reader nothing. */
  label: string;
  height?: number;
  /** What is saved as CSV; without, the points of its series. */
  figures?: () => Figures;
  /** Called with what is clicked at. */
  onPick?: (picked: { dataIndex: number; seriesIndex: number; data: unknown }) => void;
};

export function Chart({ option, label, height = 320, figures, onPick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType>(null);
  const picked = useRef(onPick);
  picked.current = onPick;
  const scheme = useComputedColorScheme();
  useEffect(() => {
    const made = init(box.current!, themeOf(scheme));
    chart.current = made;
    made.on("click", (event) => picked.current?.(event as Parameters<NonNullable<typeof onPick>>[0]));
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
  const asPicture = () => {
    const url = chart.current!.getDataURL({
      type: "png",
      pixelRatio: 2,
      backgroundColor: background(scheme),
    });
    save(fileName(label, "png"), picture(url));
  };
  const asFigures = () => save(fileName(label, "csv"), csv(figures?.() ?? figuresOf(option)));
  return (
    <Box className={classes.chart}>
      <Box ref={box} h={height} role="img" aria-label={label} />
      <Box className={classes.save ?? ""}>
        <UnstyledButton onClick={asPicture} aria-label={`Save as PNG: ${label}`} title="Save the picture">
          PNG
        </UnstyledButton>
        <UnstyledButton onClick={asFigures} aria-label={`Save as CSV: ${label}`} title="Save the figures">
          CSV
        </UnstyledButton>
      </Box>
    </Box>
  );
}
