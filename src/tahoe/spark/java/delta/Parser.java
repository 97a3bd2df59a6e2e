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
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.runtime.AbstractFunction2;

/**
 * The session's {@link ParserInterface}, as a proxy, because its methods differ between Spark versions. It passes a text whose first words
 * may begin a Delta statement to Python, and everything else to the parser beneath, which is Spark's or another extension's. Python:
 * {@code statements.plan_statement}.
 */
public class Parser implements InvocationHandler {
  private static final Set ALWAYS = new HashSet(
      Arrays.asList(
          new String[] {"VACUUM", "OPTIMIZE", "GENERATE", "CONVERT", "RESTORE", "REORG", "FSCK", "MSCK", "COMMIT", "ROLLBACK"}));
  private static final Set MODES = new HashSet(Arrays.asList(new String[] {"EXTENDED", "CODEGEN", "COST", "FORMATTED"}));

  private final SparkSession session;
  private final ParserInterface beneath;
  private boolean isComplete = false;

  private Parser(SparkSession session, ParserInterface beneath) {
    this.session = session;
    this.beneath = beneath;
  }

  /** Python also sees what Spark cannot parse and may have a Delta statement or a CHANGES clause, to raise a clearer error. */
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
      if (isPlan && (wordAt(text, after(text, 0)).equals("BEGIN") || has(text, "CHANGES"))) ask(text, arguments);
      throw declared(error.getCause());
    }
  }

  /** The methods of a parser throw ParseException alone; a proxy that threw another checked exception would hide it from the user. */
  private static Throwable declared(Throwable error) {
    if (!(error instanceof AnalysisException) || error instanceof ParseException) return error;
    AnalysisException found = (AnalysisException) error;
    ParseException told =
        new ParseException(Option.empty(), CurrentOrigin.get(), found.getCondition(), found.messageParameters(), found.getQueryContext());
    told.setStackTrace(error.getStackTrace());
    return told;
  }

  /** Adds missing analyzer rules before the session's first statement, see {@link Rules#analyse}. */
  private synchronized void complete() {
    if (!isComplete) Rules.analyse(session);
    isComplete = true;
  }

  private Object ask(String text, Object[] arguments) {
    return Ask.answer(Ask.python.statement(beneath, text, arguments.length > 1 ? arguments[1] : null));
  }

  // installation

  /** A proxy around a parser; the parser itself if it is one already. */
  static ParserInterface around(SparkSession session, ParserInterface parser) {
    if (isOurs(parser)) return parser;
    Parser ours = new Parser(session, parser);
    return (ParserInterface) Proxy.newProxyInstance(Parser.class.getClassLoader(), new Class[] {ParserInterface.class}, ours);
  }

  private static boolean isOurs(ParserInterface parser) {
    return Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof Parser;
  }

  public static boolean installed(SparkSession session) { return isOurs(session.sessionState().sqlParser()); }

  /** Replaces the parser of a running session, by reflection: Spark offers no other way. */
  public static void install(SparkSession session) throws ReflectiveOperationException {
    Object state = session.sessionState();
    Field field = Fields.of(state, "sqlParser");
    field.set(state, around(session, (ParserInterface) field.get(state)));
  }

  /** The parser builder that Spark calls for sessions created from an enabled one. */
  public static class Injected extends AbstractFunction2 {
    public Object apply(Object session, Object parser) { return around((SparkSession) session, (ParserInterface) parser); }
  }

  // the first words of a text

  /** Whether a text may be a Delta statement, judged by its first words after EXPLAIN. Python parses it to decide. */
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
    if (first.equals("ALTER")) return has(text, "FEATURE") || has(text, "SYNC") || has(text, "TAG");
    if (first.equals("ANALYZE")) return has(text, "DELTA");
    String second = wordAt(text, after(text, at + first.length()));
    if (first.equals("CREATE") || first.equals("REPLACE")) return has(text, "CLONE") || second.equals("BLOOMFILTER");
    if (first.equals("DROP")) return second.equals("BLOOMFILTER");
    if (first.equals("SHOW")) return second.equals("TAGS");
    if (first.equals("BEGIN") || first.equals("START")) return second.equals("TRANSACTION");
    if (first.equals("CACHE")) return second.equals("SELECT");
    if (first.equals("COPY")) return second.equals("INTO");
    return (first.equals("DESCRIBE") || first.equals("DESC")) && (second.equals("HISTORY") || second.equals("DETAIL"));
  }

  private static boolean has(String text, String word) { return text.toUpperCase(Locale.ROOT).contains(word); }

  private static String wordAt(String text, int start) {
    int end = start;
    while (end < text.length() && (Character.isLetterOrDigit(text.charAt(end)) || text.charAt(end) == '_')) end++;
    return text.substring(start, end).toUpperCase(Locale.ROOT);
  }

  /** The position after blanks and comments. */
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

  /** The position after a {@code --} comment. As in Spark, a backslash at the end of a line continues it. */
  private static int afterLine(String text, int start) {
    int at = text.indexOf('\n', start);
    while (at > 0 && text.charAt(at - 1) == '\\') at = text.indexOf('\n', at + 1);
    return at < 0 ? text.length() : at;
  }

  /** The position after a bracketed comment, which may contain others. */
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
