package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Where a client looks for a node, and how much of an answer it reads.
const (
	defaultServer = "http://127.0.0.1:8080"
	serverEnv     = "MILLRACE_SERVER"
	maxAnswer     = 64 << 20
)

// client speaks to one node's REST API.
type client struct {
	base  string // without a slash at the end
	token string // "" = none
	http  *http.Client
}

// apiError is an answer of a node that is not a 2xx.
type apiError struct {
	Status  int    `json:"error_code"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

func (e *apiError) Error() string {
	if e.Field != "" && !strings.HasPrefix(e.Message, e.Field) {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// clientFlags adds the flags that every client verb takes.
func clientFlags(cmd *cobra.Command) {
	server := os.Getenv(serverEnv)
	if server == "" {
		server = defaultServer
	}
	cmd.Flags().String("server", server, "URL of a node; also from $"+serverEnv)
	cmd.Flags().String("token-file", "", "file with the node's token")
}

// newClient makes the client that cmd's flags ask for.
func newClient(cmd *cobra.Command) (*client, error) {
	server, err := cmd.Flags().GetString("server")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("--server: %q is not a URL such as %s", server, defaultServer)
	}
	tokenFile, err := cmd.Flags().GetString("token-file")
	if err != nil {
		return nil, err
	}
	token, err := readToken(tokenFile)
	if err != nil {
		return nil, err
	}
	return &client{base: strings.TrimRight(server, "/"), token: token, http: &http.Client{}}, nil
}

// readToken reads a token from the first line of a file; "" names no file.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token-file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	token := strings.TrimSpace(line)
	if token == "" {
		return "", fmt.Errorf("token-file: %s: its first line is empty; put the token there", file)
	}
	return token, nil
}

// send makes one request and returns the answer, which the caller closes. An
// answer that is not a 2xx is an *apiError.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("no answer from %s: %w", c.base, err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, readError(res)
}

// readError makes an *apiError of an answer.
func readError(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	e := &apiError{}
	if json.Unmarshal(b, e) != nil || e.Message == "" {
		e.Message = fmt.Sprintf("%s: %s", res.Status, strings.TrimSpace(string(b[:min(len(b), 500)])))
	}
	e.Status = res.StatusCode
	return e
}

// raw sends in (nil = no body) as JSON and returns the answer's body.
func (c *client) raw(ctx context.Context, method, path string, in any) (json.RawMessage, error) {
	header := http.Header{"Accept": {"application/json"}}
	var body []byte
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = b
		header.Set("Content-Type", "application/json")
	}
	res, err := c.send(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
}

// call is raw with the answer read into out; nil ignores it.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	b, err := c.raw(ctx, method, path, in)
	if err != nil || out == nil {
		return err
	}
	return decodeAnswer(b, out)
}

// decodeAnswer reads what a node answered.
func decodeAnswer(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the node's answer is not the JSON that was expected: %w", err)
	}
	return nil
}

// pathOf joins path segments, each escaped.
func pathOf(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
