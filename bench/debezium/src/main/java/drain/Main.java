package drain;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;

/**
 * Runs Debezium's engine for a benchmark, which talks with it by lines; README.md says which.
 */
public final class Main {

    private Main() {
    }

    public static void main(String[] args) {
        if (args.length == 0) {
            fail("usage: drain.Main <file of properties> [key=value ...]", null);
        }
        // Standard output belongs to the protocol; whatever a library prints is for people.
        PrintStream out = System.out;
        System.setOut(System.err);
        try {
            run(Settings.read(Path.of(args[0]), List.of(args).subList(1, args.length)), out);
        }
        catch (Exception e) {
            fail("cannot run", e);
        }
        System.exit(0);
    }

    private static void run(Settings settings, PrintStream out) throws Exception {
        Gate gate = new Gate(settings.count("bench.warmup"), settings.count("bench.events"), out);
        try (KafkaSink sink = new KafkaSink(settings.producer(), settings.deliveryTimeoutMs(), gate)) {
            DebeziumEngine<ChangeEvent<Object, Object>> engine = DebeziumEngine
                    .create(settings.format("key"), settings.format("value"), settings.format("header"))
                    .using(settings.engine())
                    .using((success, message, error) -> {
                        if (!success) {
                            fail("the engine stopped: " + message, error);
                        }
                    })
                    .notifying(sink)
                    .build();
            ExecutorService thread = Executors.newSingleThreadExecutor();
            thread.execute(engine);
            obey(gate);
            // A delivery that still waits at the gate would keep the engine from closing.
            gate.release();
            engine.close();
            thread.shutdown();
        }
    }

    /** Does what standard input says until it says {@code quit} or ends. */
    private static void obey(Gate gate) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            if (!line.equals("go")) {
                throw new IllegalArgumentException("'" + line + "' is neither go nor quit");
            }
            gate.go();
        }
    }

    private static void fail(String what, Throwable why) {
        System.err.println("debezium: " + what);
        if (why != null) {
            why.printStackTrace();
        }
        // Not exit: the engine's own hooks could wait for the thread that has failed.
        Runtime.getRuntime().halt(1);
    }
}
