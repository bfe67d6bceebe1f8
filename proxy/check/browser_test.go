package check

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

// screenshotsVariable names the folder for screenshots of the pages; empty: none are taken. proxy/docs/reference.png is its
// reference-light.png.
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

// shoot takes screenshots of the window, light and dark, if any are wanted.
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

// try executes an operation with the values filled in, and returns the answer as the page shows it.
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

// wantNarrow checks that a page needs no horizontal scrolling.
func (b *browser) wantNarrow(address string) {
	b.t.Helper()
	b.open(address, "#main")
	if over := read(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
		b.t.Errorf("%s is %d pixels wider than the window", address, over)
	}
	b.shoot("narrow-" + path.Base(address))
}

// The reference works in a browser, offline and under its own strict policy: it shows every operation, and with a key it shows
// data after a few clicks, from the address that the page was loaded from.
func TestReferenceInABrowser(t *testing.T) {
	b := newBrowser(t)
	d := startDemo(t)
	base := d.front(t)
	b.open(base+"/docs#RATE_LIMITED", "#try")
	if shown, want := read(b, chromedp.Evaluate[int](`document.querySelectorAll("#reference .opblock").length`)), readDocument(t, d).Paths.Len(); shown != want {
		t.Errorf("%d operations are shown, want %d", shown, want)
	}
	if place := read(b, chromedp.Evaluate[float64](`document.getElementById("RATE_LIMITED").getBoundingClientRect().top`)); place < 0 || place > 300 {
		t.Errorf("the error code of the address is at %v in the window", place)
	}
	b.shoot("error")
	b.run(
		chromedp.SendKeys(chromedp.CSS("#key"), d.Keys["agency"]),
		chromedp.Click(chromedp.CSS("#try button")),
		chromedp.WaitVisible(chromedp.CSS("#try.ready")),
	)
	if property := read(b, chromedp.Value(chromedp.CSS("#property"))); property != d.Properties["main"].GSCProperty {
		t.Errorf("the property %q is filled in, want the starred one, %s", property, d.Properties["main"].GSCProperty)
	}
	b.run(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 0)`))
	b.shoot("reference")
	if text := b.try("getAccount"); !strings.Contains(text, `"plan_tier": "agency"`) {
		t.Errorf("the account is shown as %s", text)
	}
	b.shoot("account")
	if text := b.try("getSummary"); !strings.Contains(text, `"impressions"`) {
		t.Errorf("the summary is shown as %s", text)
	}
	b.shoot("summary")
	for _, guide := range []string{"first-request", "dates", "filters", "limits", "numbers", "connect-google"} {
		b.open(base+"/docs/guides/"+guide, "main h1")
		b.shoot(guide)
	}
	b.run(chromedp.EmulateViewport(390, 844))
	b.wantNarrow(base + "/docs/guides/limits")
	b.wantNarrow(base + "/docs")
	if logged := b.logged(); logged != "" {
		t.Errorf("the browser logged: %s", logged)
	}
	if foreign := b.foreign(base); len(foreign) > 0 {
		t.Errorf("the pages sent requests to other origins: %v", foreign)
	}
}
