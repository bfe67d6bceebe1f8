package proxy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
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

// screenshotsVariable names the folder to leave pictures of the pages in; empty for none. Its reference-light.png is
// docs/reference.png of this repository.
const screenshotsVariable = "SARA_SCREENSHOTS"

// A browser is one page of a headless Chromium, with what it complained of.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // guarded by mu
	requests   []string // guarded by mu: the URLs asked for
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

// listen notes complaints. A violation of the Content-Security-Policy is an entry of the log.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, argument := range e.Args {
				b.complaints = append(b.complaints, fmt.Sprintf("console: %s %s", argument.Value, argument.Description))
			}
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("in the browser: %v\nit complained: %s", err, b.complained())
	}
}

// read returns what an action finds on the page.
func read[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v\nit complained: %s", err, b.complained())
	}
	return value
}

func (b *browser) complained() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.complaints, "\n")
}

// strangers are the requests to another origin.
func (b *browser) strangers(origin string) (others []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.requests {
		if !strings.HasPrefix(address, origin+"/") && !strings.HasPrefix(address, "data:") {
			others = append(others, address)
		}
	}
	return others
}

// open shows a page.
func (b *browser) open(address, awaited string) {
	b.t.Helper()
	b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(awaited)))
}

// shoot leaves pictures of what the window shows, light and dark, if pictures are wanted.
func (b *browser) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv(screenshotsVariable)
	if folder == "" {
		return
	}
	for _, scheme := range []string{"dark", "light"} {
		parameters := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		b.run(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, parameters)
			return err
		}))
		picture := read(b, chromedp.CaptureScreenshot())
		if err := os.WriteFile(filepath.Join(folder, name+"-"+scheme+".png"), picture, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// try executes an operation with what is filled in, and returns what the page shows of the answer.
func (b *browser) try(operation string) string {
	b.t.Helper()
	block := `.opblock[id$="-` + operation + `"]`
	b.run(
		chromedp.Click(chromedp.CSS(block+" .opblock-summary-control")),
		chromedp.Click(chromedp.CSS(block+" .execute")),
		chromedp.WaitVisible(chromedp.CSS(block+" .live-responses-table .response-col_description pre")),
	)
	return read(b, chromedp.Text(chromedp.CSS(block+" .live-responses-table")))
}

// wantNarrow checks that nobody has to scroll a page sideways.
func (b *browser) wantNarrow(address string) {
	b.t.Helper()
	b.open(address, "#main")
	if over := read(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
		b.t.Errorf("%s is %d pixels wider than the window", address, over)
	}
	b.shoot("narrow-" + path.Base(address))
}

// The reference works in a browser, offline and under its own strict policy: it shows every operation, and a reader with a
// key sees data after a few clicks, from the host that the page came from.
func TestReferenceInABrowser(t *testing.T) {
	b := newBrowser(t)
	w := newWorld(t, func(c *Config) { c.BaseURL = "https://api.example.com" })
	b.open(w.base+"/docs#RATE_LIMITED", "#try")
	if shown := read(b, chromedp.Evaluate[int](`document.querySelectorAll("#reference .opblock").length`)); shown != len(table()) {
		t.Errorf("%d operations are shown, want %d", shown, len(table()))
	}
	if place := read(b, chromedp.Evaluate[float64](`document.getElementById("RATE_LIMITED").getBoundingClientRect().top`)); place < 0 || place > 300 {
		t.Errorf("the code that the address points to is at %v in the window", place)
	}
	b.shoot("error")
	b.run(
		chromedp.SendKeys(chromedp.CSS("#key"), w.keys["pro"]),
		chromedp.Click(chromedp.CSS("#try button")),
		chromedp.WaitVisible(chromedp.CSS("#try.ready")),
	)
	if property := read(b, chromedp.Value(chromedp.CSS("#property"))); property != w.properties["main"].Site {
		t.Errorf("the property %q is filled in, want the starred one, %s", property, w.properties["main"].Site)
	}
	b.run(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 0)`))
	b.shoot("reference")
	if text := b.try("getAccount"); !strings.Contains(text, `"plan_tier": "pro"`) {
		t.Errorf("the account shows as %s", text)
	}
	b.shoot("account")
	if text := b.try("getSummary"); !strings.Contains(text, `"impressions"`) {
		t.Errorf("the summary shows as %s", text)
	}
	b.shoot("summary")
	for _, guide := range []string{"first-request", "dates", "filters", "limits", "numbers"} {
		b.open(w.base+"/docs/guides/"+guide, "main h1")
		b.shoot(guide)
	}
	b.run(chromedp.EmulateViewport(390, 844))
	b.wantNarrow(w.base + "/docs/guides/limits")
	b.wantNarrow(w.base + "/docs")
	if complained := b.complained(); complained != "" {
		t.Errorf("the browser complained: %s", complained)
	}
	if others := b.strangers(w.base); len(others) > 0 {
		t.Errorf("the pages asked others: %v", others)
	}
}
