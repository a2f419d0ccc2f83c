package drain;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;

import io.debezium.embedded.ClientProvided;
import io.debezium.engine.format.Binary;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.JsonByteArray;
import io.debezium.engine.format.SerializationFormat;
import io.debezium.engine.format.SimpleString;

/**
 * A file of properties, and what the command line puts over it.
 *
 * The keys are those of Debezium Server, so that a file can be compared with its documentation
 * and used with it. Keys that begin with {@code bench.} are ours.
 */
final class Settings {

    private static final String SINK = "debezium.sink.kafka.";
    private static final String PRODUCER = SINK + "producer.";

    /** What a key begins with in Debezium Server, and what with in the engine. */
    private static final Map<String, String> TO_ENGINE = Map.of(
            "debezium.source.", "",
            "debezium.transforms", "transforms",
            "debezium.format.key.", "key.converter.",
            "debezium.format.value.", "value.converter.",
            "debezium.format.header.", "header.converter.");

    private static final Map<String, Class<? extends SerializationFormat<?>>> FORMATS = Map.of(
            "json", Json.class,
            "jsonbytearray", JsonByteArray.class,
            "simplestring", SimpleString.class,
            "binary", Binary.class,
            "clientprovided", ClientProvided.class);

    private final Properties all;

    private Settings(Properties all) {
        this.all = all;
    }

    /** Reads {@code file}; of two values for a key, the command line's counts. */
    static Settings read(Path file, Iterable<String> overrides) throws IOException {
        Properties all = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            all.load(reader);
        }
        for (String override : overrides) {
            int equals = override.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("'" + override + "' is not key=value");
            }
            all.setProperty(override.substring(0, equals), override.substring(equals + 1));
        }
        Settings settings = new Settings(all);
        settings.refuseUnknown();
        return settings;
    }

    /** What the engine, its connector, its transformations and its converters are told. */
    Properties engine() {
        Properties engine = new Properties();
        TO_ENGINE.forEach((from, to) -> engine.putAll(below(from, to)));
        engine.putIfAbsent("name", "bench");
        return engine;
    }

    /** What the Kafka producer is told. */
    Properties producer() {
        return below(PRODUCER, "");
    }

    /** How long Debezium's sink waits for the acknowledgement of an event; 0 is for ever. */
    long deliveryTimeoutMs() {
        return Long.parseLong(all.getProperty(SINK + "wait.message.delivery.timeout.ms", "30000"));
    }

    /** The format of {@code "key"}, {@code "value"} or {@code "header"}; JSON, as in Debezium Server. */
    @SuppressWarnings("unchecked")
    Class<? extends SerializationFormat<Object>> format(String of) {
        String name = all.getProperty("debezium.format." + of, "json");
        Class<? extends SerializationFormat<?>> format = FORMATS.get(name);
        if (format == null) {
            throw new IllegalArgumentException("'" + name + "' is not a format for a " + of + " here");
        }
        return (Class<? extends SerializationFormat<Object>>) format;
    }

    /** A number of events that the command line must give. */
    long count(String key) {
        String value = all.getProperty(key);
        if (value == null) {
            throw new IllegalArgumentException(key + "=<number> is missing");
        }
        long count = Long.parseLong(value);
        if (count < 1) {
            throw new IllegalArgumentException(key + " must be at least 1");
        }
        return count;
    }

    private Properties below(String from, String to) {
        Properties found = new Properties();
        for (String key : all.stringPropertyNames()) {
            if (key.startsWith(from)) {
                found.setProperty(to + key.substring(from.length()), all.getProperty(key));
            }
        }
        return found;
    }

    /** A misspelt key would measure something else than what its file says. */
    private void refuseUnknown() {
        for (String key : all.stringPropertyNames()) {
            boolean known = key.startsWith(SINK)
                    || key.startsWith("bench.")
                    || key.matches("debezium\\.format\\.(key|value|header)")
                    || TO_ENGINE.keySet().stream().anyMatch(key::startsWith);
            if (!known) {
                throw new IllegalArgumentException("unknown key '" + key + "'");
            }
        }
    }
}
