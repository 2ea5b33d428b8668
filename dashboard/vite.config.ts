import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` talks to a coordinator that runs beside it: TILEFLEET_URL, as `tilefleet up` prints it.
const coordinator = process.env["TILEFLEET_URL"] ?? "http://127.0.0.1:8470";

export default defineConfig({
  plugins: [react()],
  build: { outDir: "../server/dashboard", emptyOutDir: true, chunkSizeWarningLimit: 700 },
  server: { proxy: { "/api": coordinator, "/health": coordinator, "/version": coordinator } },
});
