import "@mantine/core/styles.css";
import "./alerts.css";

import type { CSSVariablesResolver } from "@mantine/core";
import { MantineProvider, createTheme } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { ApiError } from "./api/client";
import { Shell } from "./shell";

const scrollAreaProps = { viewportProps: { tabIndex: 0, role: "group", "aria-label": "Choices" } };
const theme = createTheme({
  primaryColor: "cyan",
  primaryShade: 9,
  autoContrast: true,
  components: {
    // A dialog's head is no banner of the page.
    ModalHeader: { defaultProps: { role: "presentation" } },
    DrawerHeader: { defaultProps: { role: "presentation" } },
    // What a list offers stays where its field is: in the page's landmarks, and in its dialog.
    // What is too long for its box is scrolled by the keyboard, too.
    Select: { defaultProps: { comboboxProps: { withinPortal: false }, scrollAreaProps } },
    TagsInput: { defaultProps: { comboboxProps: { withinPortal: false }, scrollAreaProps } },
    // Inside a sentence colour alone does not tell a link from the words around it.
    Anchor: { defaultProps: { underline: "always" } },
  },
});
// Mantine's own dimmed and orange are too faint on its backgrounds to be read by everyone.
const readable: CSSVariablesResolver = (of) => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": of.colors.gray[7],
    "--mantine-color-placeholder": of.colors.gray[7],
    "--warning": of.colors.orange[9],
    "--failed": of.colors.red[9],
  },
  dark: {
    "--mantine-color-dimmed": of.colors.dark[1],
    "--mantine-color-placeholder": of.colors.dark[1],
    "--warning": of.colors.orange[4],
    "--failed": of.colors.red[3],
  },
});
// The coordinator may be on this machine, so the browser's being offline says nothing (networkMode).
// A refusal stays one; a coordinator that does not answer may be back soon.
const retry = (count: number, error: Error) => error instanceof ApiError && error.status === 0 && count < 1;
const queries = new QueryClient({
  defaultOptions: {
    queries: { retry, staleTime: 1000, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});

// The page's policy allows only styles that carry the nonce it came with.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
// What keeps the page from scrolling behind a dialog makes its style by itself, and asks here.
setNonce(nonce);

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
      cssVariablesResolver={readable}
    >
      <QueryClientProvider client={queries}>
        <Shell />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
