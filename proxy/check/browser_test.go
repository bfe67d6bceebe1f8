package check

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// screenshotsVariable names the folder for screenshots of the pages; empty: none are taken. proxy/docs/reference.png is its
// answer.png.
const screenshotsVariable = "SARA_SCREENSHOTS"

// A browser is one page of a headless Chromium, with the errors it logged.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex // guards the following fields
	errors   []string
	requests []string // URLs
}

// newBrowser starts a browser that ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1280, 1500))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

// listen records errors and requests. A violation of the Content-Security-Policy is an entry of the log.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, argument := range e.Args {
				b.errors = append(b.errors, fmt.Sprintf("console: %s %s", argument.Value, argument.Description))
			}
		}
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, "exception: "+e.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("in the browser: %v\nit logged: %s", err, b.logged())
	}
}

// read returns what an action finds on the page.
func read[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v\nit logged: %s", err, b.logged())
	}
	return value
}

func (b *browser) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.errors, "\n")
}

// foreign returns the requests to other origins.
func (b *browser) foreign(origin string) (others []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.requests {
		if !strings.HasPrefix(address, origin+"/") && !strings.HasPrefix(address, "data:") {
			others = append(others, address)
		}
	}
	return others
}

// open navigates to a page, and waits for an element.
func (b *browser) open(address, awaited string) {
	b.t.Helper()
	b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(awaited)))
}

// emulate sets the width of the window and the colours that the reader prefers.
func (b *browser) emulate(width int64, scheme string) {
	b.t.Helper()
	parameters := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.run(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, parameters)
		return err
	}))
}

// shoot takes a screenshot of the window, if any are wanted.
func (b *browser) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv(screenshotsVariable)
	if folder == "" {
		return
	}
	picture := read(b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// send sends the request of the page's form, and returns the answer and what is said about it.
func (b *browser) send() (answer, outcome string) {
	b.t.Helper()
	b.run(chromedp.Click(chromedp.CSS("form.try .send button")), chromedp.WaitVisible(chromedp.CSS("#outcome.done")))
	return read(b, chromedp.Text(chromedp.CSS("#shown"))), read(b, chromedp.Text(chromedp.CSS("#outcome")))
}

// kinds are the pages of each kind, by the names of their screenshots.
func kinds() map[string]string {
	return map[string]string{
		"start": "/docs", "summary": "/docs/operations/getSummary", "urls": "/docs/operations/listIndexedURLs", "errors": "/docs/errors",
		"guide": "/docs/guides/numbers", "first-request": "/docs/guides/first-request", "search": "/docs/search?q=ctr", "missing": "/docs/nothing",
	}
}

// The reference works in a browser, offline and under its own strict policy, from the address that the page was loaded from. The demo's
// key is filled in; another one survives a link, and is in no address and no storage.
func testReferenceInABrowser(t *testing.T, d demo) {
	b := newBrowser(t)
	base := d.front(t)
	b.open(base+"/docs/operations/getSummary", "form.try.live")
	if answer, outcome := b.send(); !strings.Contains(answer, `"impressions"`) || !strings.Contains(outcome, "Status 200") {
		t.Errorf("the summary is shown as %s: %s", outcome, answer)
	}
	const another = `(() => { const key = document.getElementById("key"); key.value = %q; key.dispatchEvent(new Event("change")); })()`
	b.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(another, d.Keys["agency"])),
		chromedp.Click(chromedp.CSS(`.side a[href$="/getAccount"]`)), chromedp.WaitVisible(chromedp.CSS(`.side a[href$="/getAccount"][aria-current]`)))
	if answer, _ := b.send(); !strings.Contains(answer, `"plan_tier": "agency"`) {
		t.Errorf("after a link, the account is shown as %s", answer)
	}
	kept := read(b, chromedp.Evaluate[string](`location.href + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie`))
	if !strings.HasSuffix(kept, "getAccount{}{}") {
		t.Errorf("the page keeps %s", kept)
	}
	b.open(base+"/docs/errors#RATE_LIMITED", "#RATE_LIMITED")
	if place := read(b, chromedp.Evaluate[float64](`document.getElementById("RATE_LIMITED").getBoundingClientRect().top`)); place < 0 || place > 300 {
		t.Errorf("the error code of the address is at %v in the window", place)
	}
	b.open(base+"/", "#q")
	b.run(chromedp.SendKeys(chromedp.CSS("#q"), "ctr"), chromedp.Click(chromedp.CSS(".find button")),
		chromedp.WaitVisible(chromedp.CSS(".results mark")))
	b.open(base+"/docs/operations/listQueries", "form.try.live")
	b.run(chromedp.SendKeys(chromedp.CSS("#p-limit"), "0"))
	if answer, _ := b.send(); !strings.Contains(answer, "VALIDATION_ERROR") {
		t.Errorf("a wrong limit is shown as %s", answer)
	}
	// The browser logs every answer that is no success.
	if logged := strings.Split(b.logged(), "\n"); len(logged) != 1 || !strings.Contains(logged[0], "limit=0") {
		t.Errorf("the browser logged: %s", logged)
	}
	b.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(another, "wrong")))
	if _, outcome := b.send(); !strings.Contains(outcome, "Status 401") || strings.Contains(outcome, "left today") {
		t.Errorf("a wrong key, which has no allowance, is shown as %s", outcome)
	}
	if foreign := b.foreign(base); len(foreign) > 0 {
		t.Errorf("the pages sent requests to other origins: %v", foreign)
	}
}

// Every kind of page is accessible, light and dark, on a desktop and on a phone, where none needs horizontal scrolling.
func testPagesAreAccessible(t *testing.T, d demo) {
	axe := readAxe(t)
	b := newBrowser(t)
	for name, place := range kinds() {
		b.open(d.BaseURL+place, "#main")
		if name == "summary" {
			b.emulate(1280, "light")
			b.send()
			b.shoot("answer")
		}
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; }); scrollTo(0, 0)`),
			chromedp.Evaluate[chromedp.Void](axe))
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"dark", "light"} {
				b.emulate(width, scheme)
				where := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				b.shoot(where)
				if over := read(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
					t.Errorf("%s is %d pixels wider than the window", where, over)
				}
				rules := "{}"
				if scheme == "dark" { // only colours differ
					rules = `{runOnly: ["color-contrast"]}`
				}
				for _, violation := range read(b, chromedp.Evaluate[[]string](fmt.Sprintf(violations, rules), chromedp.EvalAwaitPromise)) {
					t.Errorf("%s: %s", where, violation)
				}
			}
		}
	}
}

// violations runs axe, and returns what is serious or worse.
const violations = `axe.run(%s).then(({violations}) => violations
	.filter((v) => v.impact === "serious" || v.impact === "critical")
	.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).join(", ")))`

// readAxe returns the script of axe, which npm installs.
func readAxe(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot download axe: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
