package delta;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import scala.runtime.AbstractFunction2;

/**
 * A session's parser, which asks Python first where the first words of a statement may be those of one that Spark does not know. Everything
 * else goes as it is to the parser beneath, Spark's or that of another extension.
 */
public class Parser implements InvocationHandler {
  private static final Set ALWAYS =
      new HashSet(Arrays.asList(new String[] {"VACUUM", "OPTIMIZE", "GENERATE", "CONVERT", "RESTORE", "REORG"}));
  private static final Set MODES = new HashSet(Arrays.asList(new String[] {"EXTENDED", "CODEGEN", "COST", "FORMATTED"}));

  private final SparkSession session;
  private final ParserInterface beneath;
  private boolean isComplete = false;

  private Parser(SparkSession session, ParserInterface beneath) {
    this.session = session;
    this.beneath = beneath;
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    boolean isPlan = method.getName().equals("parsePlan") || method.getName().equals("parsePlanWithParameters");
    String text = isPlan ? (String) arguments[0] : null;
    if (isPlan) complete();
    if (isPlan && mayBeOurs(text)) {
      Object ours = ask(text, arguments);
      if (ours != null) return ours;
    }
    try {
      return method.invoke(beneath, arguments);
    } catch (InvocationTargetException error) {
      if (isPlan && wordAt(text, after(text, 0)).equals("BEGIN")) ask(text, arguments);
      throw error.getCause();
    }
  }

  /** The first statement of a session finds the rules in its analyser, whatever Spark took of the extensions. */
  private synchronized void complete() {
    if (!isComplete) Rules.analyse(session);
    isComplete = true;
  }

  private Object ask(String text, Object[] arguments) {
    return Ask.answer(Ask.python.statement(beneath, text, arguments.length > 1 ? arguments[1] : null));
  }

  // which parser

  /** The parser that asks Python before this one; the same where it does so already. */
  static ParserInterface around(SparkSession session, ParserInterface parser) {
    if (isOurs(parser)) return parser;
    Parser ours = new Parser(session, parser);
    return (ParserInterface) Proxy.newProxyInstance(Parser.class.getClassLoader(), new Class[] {ParserInterface.class}, ours);
  }

  private static boolean isOurs(ParserInterface parser) {
    return Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof Parser;
  }

  public static boolean installed(SparkSession session) { return isOurs(session.sessionState().sqlParser()); }

  /** Gives a running session the parser. Its state has no way to exchange one but the field. */
  public static void install(SparkSession session) throws ReflectiveOperationException {
    Object state = session.sessionState();
    Field field = Fields.of(state, "sqlParser");
    field.set(state, around(session, (ParserInterface) field.get(state)));
  }

  /** Gives it to the sessions that are made from one. */
  public static class Injected extends AbstractFunction2 {
    public Object apply(Object session, Object parser) { return around((SparkSession) session, (ParserInterface) parser); }
  }

  // which statements

  /** By its first words; whether it is, Python says. */
  public static boolean mayBeOurs(String text) {
    int at = after(text, 0);
    String first = wordAt(text, at);
    if (first.equals("EXPLAIN")) {
      at = after(text, at + first.length());
      first = wordAt(text, at);
      if (MODES.contains(first)) {
        at = after(text, at + first.length());
        first = wordAt(text, at);
      }
    }
    if (ALWAYS.contains(first)) return true;
    if (first.equals("ALTER")) return has(text, "FEATURE") || has(text, "SYNC");
    if (first.equals("CREATE") || first.equals("REPLACE")) return has(text, "CLONE");
    if (!first.equals("DESCRIBE") && !first.equals("DESC")) return false;
    String second = wordAt(text, after(text, at + first.length()));
    return second.equals("HISTORY") || second.equals("DETAIL");
  }

  private static boolean has(String text, String word) { return text.toUpperCase(Locale.ROOT).contains(word); }

  private static String wordAt(String text, int start) {
    int end = start;
    while (end < text.length() && (Character.isLetterOrDigit(text.charAt(end)) || text.charAt(end) == '_')) end++;
    return text.substring(start, end).toUpperCase(Locale.ROOT);
  }

  /** The place after spaces and comments. */
  private static int after(String text, int start) {
    int at = start;
    while (at < text.length()) {
      if (Character.isWhitespace(text.charAt(at))) at++;
      else if (text.startsWith("--", at)) at = afterLine(text, at);
      else if (text.startsWith("/*", at)) at = afterBrackets(text, at);
      else return at;
    }
    return at;
  }

  /** A comment goes on in the next line after a backslash. */
  private static int afterLine(String text, int start) {
    int at = text.indexOf('\n', start);
    while (at > 0 && text.charAt(at - 1) == '\\') at = text.indexOf('\n', at + 1);
    return at < 0 ? text.length() : at;
  }

  private static int afterBrackets(String text, int start) {
    int depth = 0;
    int at = start;
    while (at < text.length()) {
      if (text.startsWith("/*", at)) {
        depth++;
        at += 2;
      } else if (text.startsWith("*/", at)) {
        depth--;
        at += 2;
        if (depth == 0) return at;
      } else {
        at++;
      }
    }
    return at;
  }
}
