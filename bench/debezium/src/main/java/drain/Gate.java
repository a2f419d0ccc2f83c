package drain;

import java.io.PrintStream;
import java.util.concurrent.CountDownLatch;

/**
 * Stands between the events that warm the JVM up and those that are measured, and is the clock.
 *
 * The engine's one thread that delivers asks before a delivery and tells after it; it stands still
 * between the two kinds until the benchmark says so.
 */
final class Gate {

    private final PrintStream out;
    private final long warmUp;
    private final long events;
    private final CountDownLatch opened = new CountDownLatch(1);
    /** When the clock started; 0 before that. */
    private volatile long openedAt;
    private volatile long acknowledged;

    Gate(long warmUp, long events, PrintStream out) {
        this.warmUp = warmUp;
        this.events = events;
        this.out = out;
    }

    /** Lets the next events pass, at most {@code waiting}; waits for {@link #go} if it is shut. */
    int admit(int waiting) throws InterruptedException {
        if (acknowledged < warmUp) {
            return (int) Math.min(waiting, warmUp - acknowledged);
        }
        opened.await();
        return waiting;
    }

    /** Counts events that Kafka has acknowledged just now. */
    void acknowledged(int count) {
        long before = acknowledged;
        long after = before + count;
        acknowledged = after;
        if (before < warmUp && after >= warmUp) {
            say("warm");
        }
        if (openedAt != 0 && before < warmUp + events && after >= warmUp + events) {
            say("done " + (System.nanoTime() - openedAt));
        }
    }

    /** The backlog is there: the clock starts. */
    void go() {
        if (acknowledged < warmUp) {
            throw new IllegalStateException("go came before warm");
        }
        openedAt = System.nanoTime();
        opened.countDown();
    }

    /** Lets whoever waits pass without the clock, so that the engine can end. */
    void release() {
        opened.countDown();
    }

    private void say(String line) {
        out.println(line);
        out.flush();
    }
}
