package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// logFlags adds the flags of logging.
func logFlags(cmd *cobra.Command) {
	cmd.Flags().String("log-level", "info", "debug, info, warn or error")
	cmd.Flags().String("log-format", "text", "text or json")
}

// newLogger makes the logger that cmd's flags ask for; it writes to stderr.
func newLogger(cmd *cobra.Command) (*slog.Logger, error) {
	level, err := cmd.Flags().GetString("log-level")
	if err != nil {
		return nil, err
	}
	format, err := cmd.Flags().GetString("log-format")
	if err != nil {
		return nil, err
	}
	return makeLogger(cmd.ErrOrStderr(), level, format)
}

func makeLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var o slog.HandlerOptions
	switch level {
	case "debug":
		o.Level = slog.LevelDebug
	case "info":
		o.Level = slog.LevelInfo
	case "warn":
		o.Level = slog.LevelWarn
	case "error":
		o.Level = slog.LevelError
	default:
		return nil, usagef("--log-level: %q is not debug, info, warn or error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &o)), nil
	}
	return nil, usagef("--log-format: %q is not text or json", format)
}

// applyConfig sets flags from a YAML file whose keys are the flags' names. What
// was given on the command line stays; an unknown key is an error.
func applyConfig(cmd *cobra.Command, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	docs, err := parseDocuments(file, text)
	if err != nil || len(docs) == 0 {
		return err
	}
	if len(docs) > 1 || docs[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: config: one mapping of settings is wanted", file, docs[0].Line)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(docs[0].Content); i += 2 {
		key, value := docs[0].Content[i], docs[0].Content[i+1]
		name := key.Value
		flag := cmd.Flags().Lookup(name)
		switch {
		case flag == nil || name == "config" || name == "help":
			return fmt.Errorf("%s:%d: %s: unknown setting; the settings are the flags of %s", file, key.Line, name, cmd.CommandPath())
		case seen[name]:
			return fmt.Errorf("%s:%d: %s: given twice", file, key.Line, name)
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s:%d: %s: one value is wanted", file, value.Line, name)
		}
		seen[name] = true
		if flag.Changed {
			continue
		}
		if err := cmd.Flags().Set(name, value.Value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", file, value.Line, name, err)
		}
	}
	return nil
}

// listen opens addr. Beyond loopback a token is required.
func listen(ctx context.Context, flag, addr, token string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usagef("--%s: %q is not HOST:PORT such as 127.0.0.1:8080", flag, addr)
	}
	if token == "" && !loopback(host) {
		return nil, usagef("--%s: %s is reachable from other machines: give --token-file, or use 127.0.0.1", flag, addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// loopback reports whether a host is this machine and no other can reach it. A
// name other than localhost may stand for anything.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
