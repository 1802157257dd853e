package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// tokenOptions are how much one access token may ask for, and have of what the server has.
func tokenOptions() []option {
	return []option{
		{
			"token-rate", "200000", "1 to 1000000, or 0 for any number",
			"requests per second that one access token may make on average, with bursts of up to twice as many; more get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.PerSecond, text, 1_000_000) },
		},
		{
			"token-at-once", "20000", "1 to 1000000, or 0 for any number",
			"requests of one access token that the server answers at the same time, including those that wait for " +
				"work; more get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.AtOnce, text, 1_000_000) },
		},
		{
			"token-body-memory", "384MiB", "128MiB to 512MiB",
			"memory for large requests of one access token while the server reads them, out of 512 MiB for all; more get 429",
			func(c *Config, text string) error { return sizeBetween(&c.TokenLimits.Bodies, text, 128<<20, 512<<20) },
		},
		{
			"token-answer-memory", "96MiB", "16MiB to 128MiB",
			"memory for large answers to one access token until the client has read them, out of 128 MiB for all; more get 429",
			func(c *Config, text string) error { return sizeBetween(&c.TokenLimits.Answers, text, 16<<20, 128<<20) },
		},
		{
			"token-view-memory", "auto", "auto, or 1MiB to 1TiB",
			"memory for the indexes that the strategies of one access token need; more get 429; auto is three " +
				"quarters of view-memory",
			func(c *Config, text string) error { return setTokenViews(&c.TokenLimits.Views, text) },
		},
		{
			"token-submissions", "auto", "auto, 1 to 1000000000, or 0 for any number",
			"open submissions that one access token inserted since the server's start; more get 429; auto is three " +
				"quarters of max-live-submissions",
			func(c *Config, text string) error { return setCountOrAuto(&c.TokenLimits.Submissions, text) },
		},
		{
			"token-meta-values", "auto", "auto, 1 to 1000000000, or 0 for any number",
			"new values of meta keys that one access token may bring; each counts until no open submission has it, or " +
				"the server restarts; more get 429; auto is the same as token-submissions",
			func(c *Config, text string) error { return setCountOrAuto(&c.TokenLimits.Values, text) },
		},
		{
			"token-consumers", "15000", "1 to 1000000, or 0 for any number",
			"attached consumers of one access token, out of 20000 per queue; more get 429",
			func(c *Config, text string) error { return setCount(&c.TokenLimits.Consumers, text, 1_000_000) },
		},
	}
}

// worked is a number that tokenLimits works out from other options.
const worked = -1

func setCountOrAuto(to *int, text string) error {
	if text == auto {
		*to = worked
		return nil
	}
	if setCount(to, text, maxLive) != nil {
		return fmt.Errorf("must be auto, or a whole number from 0 to %d", maxLive)
	}
	return nil
}

func setTokenViews(to *int64, text string) error {
	if text == auto {
		*to = worked
		return nil
	}
	if sizeBetween(to, text, 1<<20, maxViewMemory) != nil {
		return errors.New("must be auto, or from 1MiB to " + formatSize(maxViewMemory))
	}
	return nil
}

// tokenLimits are what one access token may ask for: where the options leave it to the server, three quarters of what
// all may, so that there is room beside it.
func (c *Config) tokenLimits() access.Limits {
	limits := c.TokenLimits
	limits.Rules = queue.MaxRules / 4 * 3
	limits.Bulks = queue.MaxBulkRunning / 4 * 3
	if limits.Views == worked {
		limits.Views = c.ViewMemory / 4 * 3
	}
	if limits.Submissions == worked {
		limits.Submissions = int(c.MaxLive - c.MaxLive/4)
	}
	if limits.Values == worked {
		limits.Values = limits.Submissions
	}
	return limits
}

// setCount takes a whole number; 0 is no limit.
func setCount(to *int, text string, most int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return fmt.Errorf("must be a whole number from 0 to %d", most)
	}
	*to = n
	return nil
}
