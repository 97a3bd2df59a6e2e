package delta;

import java.util.Arrays;
import java.util.Collections;
import org.apache.spark.sql.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A runnable command for a statement that only Delta has. It holds the text and the values in it, as expressions that Spark resolves with
 * the plan, so that Python keeps no state for a statement that never runs. Python: {@code statements.plan_statement} creates it,
 * {@code statements.perform} runs it, {@code statements.explain} explains it.
 */
public class Statement extends OurCommand {
  private final String text;
  private final Seq values;
  private final Object condition;
  private final boolean explains;
  private String told;

  /**
   * @param text the SQL, which Python parses again when the statement runs
   * @param values the expressions for the values in the text, in the order of {@code tahoe.sql.statements.values_of}
   * @param condition a Column, the condition on the table's rows; null if there is none
   * @param columns the attributes of the result
   * @param explains whether EXPLAIN asks Python what the statement would do
   */
  public Statement(String name, String text, Seq values, Object condition, Seq columns, boolean explains) {
    super(name, columns);
    this.text = text;
    this.values = values;
    this.condition = condition;
    this.explains = explains;
  }

  /** What EXPLAIN shows after the name: with {@code explains} what the statement would do. */
  public Iterator stringArgs() {
    if (!explains || !resolved()) return super.stringArgs();
    if (told == null) told = (String) Ask.answer(Ask.python.explain(SparkSession.active(), text, values, condition));
    return CollectionConverters.asScala(Collections.singletonList(told)).iterator();
  }

  public Seq run(SparkSession session) { return (Seq) Ask.answer(Ask.python.perform(session, text, values, condition)); }
  public int productArity() { return 4; }
  public Object productElement(int n) { return n == 0 ? (Object) name : n == 1 ? text : n == 2 ? values : condition; }
  public Seq otherCopyArgs() { return CollectionConverters.asScala(Arrays.asList(new Object[] {columns, Boolean.valueOf(explains)})).toSeq(); }
}
